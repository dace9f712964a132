/* Poseidon2 in portable C. */
#include "bn254_columns.h"

#define KERNEL poseidon2_portable
#define KERNEL_NAME "portable"
#include "poseidon2_scalar.h"
