package weft;

/** How a session is made; weft_session_options of weft.h says more. Each method sets an option and returns this. */
public final class SessionOptions {
  int context;
  NumberType kv = NumberType.FILE, kvValues = NumberType.FILE;
  boolean polite;

  /** Tokens that the session can hold; 0: the model's maximum, but at most 4096. */
  public SessionOptions context(int value) {
    if (value < 0) throw new IllegalArgumentException("context is " + value);
    context = value;
    return this;
  }

  /** Type of cached keys and values: F16, Q8 or Q4; FILE: F16. */
  public SessionOptions kv(NumberType value) {
    kv = value;
    return this;
  }

  /** Type of cached values, if it is another one than that of keys; FILE: as kv says. */
  public SessionOptions kvValues(NumberType value) {
    kvValues = value;
    return this;
  }

  /** Lets other users of the device, such as a screen, have it in between. Session.setDuty slows such a session down. */
  public SessionOptions polite(boolean value) {
    polite = value;
    return this;
  }
}
