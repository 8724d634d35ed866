//! Recorded runs, and whether the code has moved past them.
