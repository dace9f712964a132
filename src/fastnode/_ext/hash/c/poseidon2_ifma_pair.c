/* Two states at a time, with AVX-512 IFMA. */
#if defined(__x86_64__)

#define STATES 2
#define HASH_FEW poseidon2_ifma_hash_2
#include "poseidon2_ifma_few.h"

#endif
