package weft;

/** How an embedding is made from the hidden states of all tokens; weft_pooling of weft.h. */
public enum Pooling {
  /** As the model's files say; the mean if they do not. */
  MODEL,
  MEAN,
  /** The first token's. */
  CLS,
  /** The last token's. */
  LAST
}
