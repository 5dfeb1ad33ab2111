package weft;

/**
 * How the next token is chosen; weft_sampling of weft.h says more, and has the defaults. Each method sets a value and
 * returns this.
 */
public final class Sampling {
  // NaN and -1: the library's default.
  float temperature = Float.NaN;
  int topK = -1;
  float topP = Float.NaN;
  float minP = Float.NaN;
  float repeatPenalty = Float.NaN;
  long seed;
  float presencePenalty = Float.NaN;
  float frequencyPenalty = Float.NaN;
  float typicalP = Float.NaN;

  /** Always the best token. */
  public static Sampling greedy() {
    return new Sampling().temperature(0);
  }

  /** 0: greedy. */
  public Sampling temperature(float value) {
    temperature = value;
    return this;
  }

  /** 0: all tokens. */
  public Sampling topK(int value) {
    if (value < 0) throw new IllegalArgumentException("topK is " + value);
    topK = value;
    return this;
  }

  public Sampling topP(float value) {
    topP = value;
    return this;
  }

  public Sampling minP(float value) {
    minP = value;
    return this;
  }

  public Sampling repeatPenalty(float value) {
    repeatPenalty = value;
    return this;
  }

  /** The same seed, device and prompt give the same text. */
  public Sampling seed(long value) {
    seed = value;
    return this;
  }

  public Sampling presencePenalty(float value) {
    presencePenalty = value;
    return this;
  }

  public Sampling frequencyPenalty(float value) {
    frequencyPenalty = value;
    return this;
  }

  public Sampling typicalP(float value) {
    typicalP = value;
    return this;
  }
}
