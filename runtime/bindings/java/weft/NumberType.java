package weft;

/** Types of numbers; weft_type of weft.h. FILE: as the file says. NATIVE: the file's own bits, of vocabulary tables only. */
public enum NumberType {
  FILE,
  F16,
  Q8,
  Q4,
  NATIVE
}
