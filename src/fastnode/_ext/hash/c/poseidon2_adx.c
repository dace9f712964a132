/* Poseidon2 for x86-64 with BMI2 and ADX. */
#if defined(__x86_64__)

#include "bn254_rows_adx.h"

#define KERNEL poseidon2_x86_64_adx
#define KERNEL_NAME "x86-64-adx"
#include "poseidon2_scalar.h"

#endif
