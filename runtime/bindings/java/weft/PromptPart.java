package weft;

/** Tokens of a prompt for Session.prompt: by their ids, or soft ones by their rows. weft/soft.h says more. */
public final class PromptPart {
  final Object values; // int[] or float[]

  private PromptPart(Object values) {
    this.values = values;
  }

  public static PromptPart ids(int... ids) {
    return new PromptPart(ids.clone());
  }

  /** Rows one after the other, each as wide as ModelInfo.width; Model.rows gives those of ids. */
  public static PromptPart rows(float... rows) {
    return new PromptPart(rows.clone());
  }
}
