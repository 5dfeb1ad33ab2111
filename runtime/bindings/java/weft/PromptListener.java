package weft;

/** Is told how much of a prompt has been computed, in the thread of the call that generates. */
@FunctionalInterface
public interface PromptListener {
  /**
   * done of all tokens of the prompt that were not computed before. Returns false to end the generation: the context keeps
   * the prompt and what is computed of it. What this throws ends the generation too, and generate throws it. The
   * session's getters, cancel and close may be called here.
   */
  boolean onPrompt(int done, int all);
}
