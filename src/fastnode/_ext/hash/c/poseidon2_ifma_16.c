/* 16 states side by side. */
#if defined(__x86_64__)

#define VECTORS 2
#define HASH_LANES poseidon2_ifma_hash_16
#include "poseidon2_ifma_lanes.h"

#endif
