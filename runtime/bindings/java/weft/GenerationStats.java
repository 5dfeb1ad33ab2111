package weft;

/** Sums since a session was created or reset; weft_stats of weft.h says more. */
public final class GenerationStats {
  private final int contextUsed;
  private final int stopString;
  private final long promptTokens;
  private final long reusedTokens;
  private final long decodedTokens;
  private final double promptSeconds;
  private final double decodeSeconds;
  private final double decodeCpuSeconds;
  private final double firstTokenSeconds;
  private final long readbackBytes;
  private final long kvBytes;
  private final long scratchBytes;
  private final double readGigabytesPerSecond;
  private final double deviceReadGigabytesPerSecond;
  private final long headTokens;
  private final long headRows;
  private final long headBytes;
  private final long headRefined;

  GenerationStats(
      int contextUsed, int stopString, long promptTokens, long reusedTokens, long decodedTokens, double promptSeconds,
      double decodeSeconds, double decodeCpuSeconds, double firstTokenSeconds, long readbackBytes, long kvBytes,
      long scratchBytes, double readGigabytesPerSecond, double deviceReadGigabytesPerSecond, long headTokens,
      long headRows, long headBytes, long headRefined) {
    this.contextUsed = contextUsed;
    this.stopString = stopString;
    this.promptTokens = promptTokens;
    this.reusedTokens = reusedTokens;
    this.decodedTokens = decodedTokens;
    this.promptSeconds = promptSeconds;
    this.decodeSeconds = decodeSeconds;
    this.decodeCpuSeconds = decodeCpuSeconds;
    this.firstTokenSeconds = firstTokenSeconds;
    this.readbackBytes = readbackBytes;
    this.kvBytes = kvBytes;
    this.scratchBytes = scratchBytes;
    this.readGigabytesPerSecond = readGigabytesPerSecond;
    this.deviceReadGigabytesPerSecond = deviceReadGigabytesPerSecond;
    this.headTokens = headTokens;
    this.headRows = headRows;
    this.headBytes = headBytes;
    this.headRefined = headRefined;
  }

  /** Tokens in the context now. */
  public int contextUsed() {
    return contextUsed;
  }

  /** Index of the stop string that ended the last generation; -1: none did. */
  public int stopString() {
    return stopString;
  }

  /** Prompt tokens that were computed. */
  public long promptTokens() {
    return promptTokens;
  }

  /** Prompt tokens that were computed already. */
  public long reusedTokens() {
    return reusedTokens;
  }

  /** Generated tokens, except the first of each call. */
  public long decodedTokens() {
    return decodedTokens;
  }

  /** Until the first token of each call. */
  public double promptSeconds() {
    return promptSeconds;
  }

  /** For the decoded tokens. */
  public double decodeSeconds() {
    return decodeSeconds;
  }

  public double decodeCpuSeconds() {
    return decodeCpuSeconds;
  }

  /** Time from the start of the last call to its first token, in seconds. */
  public double firstTokenSeconds() {
    return firstTokenSeconds;
  }

  public long readbackBytes() {
    return readbackBytes;
  }

  /** Device memory of the cached keys and values. */
  public long kvBytes() {
    return kvBytes;
  }

  public long scratchBytes() {
    return scratchBytes;
  }

  public double readGigabytesPerSecond() {
    return readGigabytesPerSecond;
  }

  /** 0: not measured yet. */
  public double deviceReadGigabytesPerSecond() {
    return deviceReadGigabytesPerSecond;
  }

  public long headTokens() {
    return headTokens;
  }

  /** Rows of the vocabulary table whose logits were computed. */
  public long headRows() {
    return headRows;
  }

  public long headBytes() {
    return headBytes;
  }

  public long headRefined() {
    return headRefined;
  }
}
