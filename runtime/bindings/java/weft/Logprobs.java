package weft;

/** Log-probabilities (natural logarithms) of the token that was generated last. */
public final class Logprobs {
  private final float chosen;
  private final int[] ids;
  private final float[] values;

  Logprobs(float chosen, int[] ids, float[] values) {
    this.chosen = chosen;
    this.ids = ids;
    this.values = values;
  }

  /** The token's own. */
  public float chosen() {
    return chosen;
  }

  /** The likeliest tokens, likeliest first. */
  public int[] ids() {
    return ids.clone();
  }

  /** The log-probabilities of ids. */
  public float[] values() {
    return values.clone();
  }
}
