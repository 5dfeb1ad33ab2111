// Sums and maxima of ROWS values over a workgroup of THREADS lanes, the same in every lane and in a fixed order (lib/reduce.glsl has one value).
// Each use needs the whole workgroup.
#ifdef WEFT_SUBGROUP
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif

shared float row_slots[ROWS * THREADS];

#ifdef WEFT_SUBGROUP
#define WEFT_REDUCE_ROWS(name, subgroup_op, combine)                                                         \
  void name(inout float values[ROWS]) {                                                                      \
    [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = subgroup_op(values[h]);                           \
    if (gl_NumSubgroups == 1) return;                                                                         \
    barrier(); /* the slots' last readers are done */                                                         \
    if (subgroupElect())                                                                                      \
      [[unroll]] for (uint h = 0; h < ROWS; ++h) row_slots[gl_SubgroupID * ROWS + h] = values[h];          \
    barrier();                                                                                                \
    [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = row_slots[h];                                    \
    for (uint i = 1; i < gl_NumSubgroups; ++i)                                                                \
      [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = combine(values[h], row_slots[i * ROWS + h]);  \
  }
#else
#define WEFT_REDUCE_ROWS(name, subgroup_op, combine)                                                                              \
  void name(inout float values[ROWS]) {                                                                                           \
    const uint lane = gl_LocalInvocationID.x;                                                                                      \
    barrier(); /* the slots' last readers are done */                                                                              \
    [[unroll]] for (uint h = 0; h < ROWS; ++h) row_slots[lane * ROWS + h] = values[h];                                          \
    barrier();                                                                                                                     \
    if (lane % 16 == 0)                                                                                                            \
      for (uint i = 1; i < 16 && lane + i < THREADS; ++i)                                                                          \
        [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = combine(values[h], row_slots[(lane + i) * ROWS + h]);            \
    barrier();                                                                                                                     \
    if (lane % 16 == 0)                                                                                                            \
      [[unroll]] for (uint h = 0; h < ROWS; ++h) row_slots[lane * ROWS + h] = values[h];                                        \
    barrier();                                                                                                                     \
    [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = row_slots[h];                                                         \
    for (uint i = 16; i < THREADS; i += 16)                                                                                        \
      [[unroll]] for (uint h = 0; h < ROWS; ++h) values[h] = combine(values[h], row_slots[i * ROWS + h]);                       \
  }
#endif

float plus(float a, float b) { return a + b; }

WEFT_REDUCE_ROWS(rows_sum, subgroupAdd, plus)
WEFT_REDUCE_ROWS(rows_max, subgroupMax, max)
