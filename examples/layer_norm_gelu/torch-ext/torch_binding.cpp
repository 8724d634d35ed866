// Makes the library a Python module, which is imported for what its other files register: each family its ops.
#include "registration.h"

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
