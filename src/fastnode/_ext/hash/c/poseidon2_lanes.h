/* How a file of vectors writes elements and functions.  It defines CODE, for the instructions that its functions have. */
#ifndef FASTNODE_POSEIDON2_LANES_H
#define FASTNODE_POSEIDON2_LANES_H

#include "poseidon2.h"

#define LIMBS 5
#define LIMB_BITS 52
/* Words of 64 bits that an element is in outside. */
#define WORDS (POSEIDON2_FIELD_BYTES / 8)

#define INLINE CODE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 10")
#endif

#endif
