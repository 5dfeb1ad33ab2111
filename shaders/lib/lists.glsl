// Appending to the lists of a head: one atomic operation a workgroup. Needs `state` and `lists`, and every lane of the workgroup.
shared uint append_count, append_base;

// Sets `place` to the first place of a lane's `entries` in a list whose count is `counter`; the count grows by the workgroup's entries.
#define APPEND(entries, counter, place)                                           \
  {                                                                               \
    if (gl_LocalInvocationIndex == 0) append_count = 0;                           \
    barrier();                                                                    \
    uint mine = 0;                                                                \
    if ((entries) > 0) mine = atomicAdd(append_count, entries);                   \
    barrier();                                                                    \
    if (gl_LocalInvocationIndex == 0 && append_count > 0) append_base = atomicAdd(counter, append_count); \
    barrier();                                                                    \
    place = append_base + mine;                                                   \
  }

// Workgroups of `size` for the entries so far, as what an indirect dispatch reads. By one lane, after APPEND.
#define GROUPS_FOR(groups, size) \
  if (gl_LocalInvocationIndex == 0 && append_count > 0) atomicMax(groups, (append_base + append_count + (size) - 1) / (size));
