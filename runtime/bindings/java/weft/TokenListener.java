package weft;

/** Receives what is generated, in the thread of {@link Session#generate}. */
@FunctionalInterface
public interface TokenListener {
  /**
   * A token's id, and the text that it completes: whole characters, or "". The id is -1 for text that was held back for
   * stop strings. Returns false to stop after this token. An exception of this method ends the generation; generate rethrows it.
   * The session's getters, cancel and close may be called here.
   */
  boolean onToken(int id, String text);

  /**
   * A piece of the reasoning, if it is told apart from the answer; before onToken gets the token. Returns as onToken.
   */
  default boolean onReasoning(String text) {
    return true;
  }

  /**
   * Is called by cancel and close while this listener's generation runs, in their thread: what onToken waits for in
   * another thread may never come then.
   */
  default void onCancel() {}
}
