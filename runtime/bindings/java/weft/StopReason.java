package weft;

/** Why a generation ended. */
public enum StopReason {
  /** The wanted number of tokens was generated. */
  LENGTH,
  /** The model ended its text. */
  TOKEN,
  /** The context is full. */
  CONTEXT,
  /** The listener, cancel or close. */
  CALLER,
  /** The grammar allows no further text. */
  GRAMMAR,
  /** A stop string appeared. */
  STRING
}
