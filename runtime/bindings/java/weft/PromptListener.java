package weft;

/** Called with the progress of a prompt, in the thread of the call that generates. */
@FunctionalInterface
public interface PromptListener {
  /**
   * done of all tokens of the prompt that were not computed before. Returns false to end the generation: the context keeps
   * the prompt and what is computed of it. An exception of this method ends the generation too, and generate
   * rethrows it. The session's getters, cancel and close may be called here.
   */
  boolean onPrompt(int done, int all);
}
