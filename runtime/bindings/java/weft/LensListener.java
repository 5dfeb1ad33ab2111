package weft;

/** Called for each token and layer of Session.lens, in the thread of that call. */
@FunctionalInterface
public interface LensListener {
  /**
   * layer: 0 is the embedding, i what the i-th layer leaves. position: of the token in the context. hidden: the hidden
   * state there. logits: of the next token, as the final norm and the vocabulary table give them; null if they were not
   * asked for. Returns false to end the call, which then throws WEFT_CANCELLED; what this throws is thrown by the call.
   */
  boolean onRow(int layer, int position, float[] hidden, float[] logits);
}
