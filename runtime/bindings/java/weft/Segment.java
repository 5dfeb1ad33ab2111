package weft;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** A stretch of speech; weft_heard of weft/audio.h says more. */
public final class Segment {
  private final double begin;
  private final double end;
  private final String text;
  private final double meanLogprob;
  private final double noSpeech;
  private final List<Word> words;

  /** A word, with the space before it and the punctuation after it. */
  public static final class Word {
    private final double begin;
    private final double end;
    private final String text;

    Word(double begin, double end, String text) {
      this.begin = begin;
      this.end = end;
      this.text = text;
    }

    /** Seconds from the recording's first sample. */
    public double begin() {
      return begin;
    }

    public double end() {
      return end;
    }

    public String text() {
      return text;
    }

    /** The text. */
    @Override
    public String toString() {
      return text;
    }
  }

  /**
   * @param wordTexts a zero after each
   * @param wordTimes begin and end of each
   */
  Segment(
      double begin, double end, String text, double meanLogprob, double noSpeech, String wordTexts, double[] wordTimes) {
    List<Word> all = new ArrayList<>();
    for (int i = 0, at = 0; i < wordTimes.length; i += 2) {
      int zero = wordTexts.indexOf('\0', at);
      all.add(new Word(wordTimes[i], wordTimes[i + 1], wordTexts.substring(at, zero)));
      at = zero + 1;
    }
    words = Collections.unmodifiableList(all);
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

  /** The words of the text, in their order; empty if they were not asked for. */
  public List<Word> words() {
    return words;
  }

  /** The text. */
  @Override
  public String toString() {
    return text;
  }
}
