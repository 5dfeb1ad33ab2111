package weft;

/** A failure that libweft reported. */
public final class WeftException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final String code;
  private final String sentence;
  private final String place;
  private final String hint;

  WeftException(byte[] code, byte[] sentence, byte[] place, byte[] hint) {
    super((place.length == 0 ? "" : Native.text(place) + ": ") + Native.text(sentence));
    this.code = Native.text(code);
    this.sentence = Native.text(sentence);
    this.place = Native.text(place);
    this.hint = Native.text(hint);
  }

  /** The name of weft.h's status, "WEFT_BAD_FILE" for example. */
  public String code() {
    return code;
  }

  /** The error in one sentence. */
  public String sentence() {
    return sentence;
  }

  /** The file, tensor, option or function that it concerns; may be empty. */
  public String place() {
    return place;
  }

  /** A possible cure; may be empty. */
  public String hint() {
    return hint;
  }
}
