/* 8 states side by side. */
#if defined(__x86_64__)

#define VECTORS 1
#define HASH_LANES poseidon2_ifma_hash_8
#include "poseidon2_ifma_lanes.h"

#endif
