// Sums and maxima over a workgroup of THREADS lanes, the same in every lane and in a fixed order. Each use needs the whole workgroup.
// With WEFT_SUBGROUP, subgroup arithmetic first; without it, shared memory alone.
layout(constant_id = 0) const uint THREADS = 64;
layout(local_size_x_id = 0) in;

#ifdef WEFT_SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

shared float reduce_slots[THREADS];

#ifdef WEFT_SUBGROUP
#define WEFT_REDUCE(name, subgroup_op, combine)                                       \
  float name(float value) {                                                          \
    value = subgroup_op(value);                                                       \
    if (gl_NumSubgroups == 1) return value;                                           \
    barrier(); /* the slots' last readers are done */                                 \
    if (subgroupElect()) reduce_slots[gl_SubgroupID] = value;                         \
    barrier();                                                                        \
    float total = reduce_slots[0];                                                    \
    for (uint i = 1; i < gl_NumSubgroups; ++i) total = combine(total, reduce_slots[i]); \
    return total;                                                                     \
  }
#else
// Two levels of up to 16 lanes each: two barriers more than none, and no lane sums more than 16 + THREADS / 16 slots.
#define WEFT_REDUCE(name, subgroup_op, combine)                                              \
  float name(float value) {                                                                 \
    const uint lane = gl_LocalInvocationID.x;                                                \
    barrier(); /* the slots' last readers are done */                                        \
    reduce_slots[lane] = value;                                                              \
    barrier();                                                                               \
    if (lane % 16 == 0)                                                                      \
      for (uint i = 1; i < 16 && lane + i < THREADS; ++i) value = combine(value, reduce_slots[lane + i]); \
    barrier();                                                                               \
    if (lane % 16 == 0) reduce_slots[lane] = value;                                          \
    barrier();                                                                               \
    float total = reduce_slots[0];                                                           \
    for (uint i = 16; i < THREADS; i += 16) total = combine(total, reduce_slots[i]);         \
    return total;                                                                            \
  }
#endif

float plus(float a, float b) { return a + b; }

WEFT_REDUCE(workgroup_sum, subgroupAdd, plus)
WEFT_REDUCE(workgroup_max, subgroupMax, max)
