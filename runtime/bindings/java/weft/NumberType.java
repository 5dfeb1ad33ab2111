package weft;

/** Types of numbers; weft_type of weft.h. FILE: as the file says. */
public enum NumberType {
  FILE,
  F16,
  Q8,
  Q4
}
