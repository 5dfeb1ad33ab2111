package weft;

/** A stretch of speech; weft_heard of weft/audio.h says more. */
public final class Segment {
  private final double begin;
  private final double end;
  private final String text;
  private final double meanLogprob;
  private final double noSpeech;

  Segment(double begin, double end, String text, double meanLogprob, double noSpeech) {
    this.begin = begin;
    this.end = end;
    this.text = text;
    this.meanLogprob = meanLogprob;
    this.noSpeech = noSpeech;
  }

  /** Seconds from the recording's first sample. */
  public double begin() {
    return begin;
  }

  public double end() {
    return end;
  }

  /** As the model writes it: most begin with a space. */
  public String text() {
    return text;
  }

  /** Mean of the natural logarithms of the probabilities of the tokens: of the 30 seconds that it was heard with. */
  public double meanLogprob() {
    return meanLogprob;
  }

  /** Probability that nobody speaks in these 30 seconds. */
  public double noSpeech() {
    return noSpeech;
  }

  /** The text. */
  @Override
  public String toString() {
    return text;
  }
}
