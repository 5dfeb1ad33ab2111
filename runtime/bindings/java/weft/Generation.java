package weft;

/** The result of a call that generates. */
public final class Generation {
  private final String text;
  private final String reasoning;
  private final int[] ids;
  private final StopReason stop;
  private final GenerationStats stats;

  Generation(String text, String reasoning, int[] ids, StopReason stop, GenerationStats stats) {
    this.text = text;
    this.reasoning = reasoning;
    this.ids = ids;
    this.stop = stop;
    this.stats = stats;
  }

  public String text() {
    return text;
  }

  /** The reasoning before the text, if it is told apart; else "". */
  public String reasoning() {
    return reasoning;
  }

  /** The ids of the generated tokens. */
  public int[] ids() {
    return ids.clone();
  }

  public StopReason stop() {
    return stop;
  }

  /** The session's statistics after it. */
  public GenerationStats stats() {
    return stats;
  }
}
