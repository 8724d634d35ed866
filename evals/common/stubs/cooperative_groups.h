// Clusters are of sm_90, and this compiles for sm_75: nothing of it is used.
#pragma once
