package weft;

/** How a recording is heard; weft_listen_options of weft/audio.h says more. Each method sets an option and returns this. */
public final class TranscribeOptions {
  String language;
  boolean translate;
  String prompt;
  int samplesPerSecond;
  float[] temperatures;
  boolean words;

  /** A code such as "de"; null: the first 30 seconds that are not silent decide. */
  public TranscribeOptions language(String value) {
    language = value;
    return this;
  }

  /** To English. */
  public TranscribeOptions translate(boolean value) {
    translate = value;
    return this;
  }

  /** Text that comes before the recording, for names and spelling; null: none. */
  public TranscribeOptions prompt(String value) {
    prompt = value;
    return this;
  }

  /** Rate of the recording; 0: 16000. */
  public TranscribeOptions samplesPerSecond(int value) {
    if (value < 0) throw new IllegalArgumentException("samplesPerSecond is " + value);
    samplesPerSecond = value;
    return this;
  }

  /** Tried in turn until a text seems right; without values from 0 to 1. 0 alone: the likeliest text. */
  public TranscribeOptions temperatures(float... values) {
    temperatures = values.length == 0 ? null : values.clone();
    return this;
  }

  /** Segments have their words, with times. */
  public TranscribeOptions words(boolean value) {
    words = value;
    return this;
  }
}
