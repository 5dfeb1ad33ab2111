package weft;

/** Is told how far a long call is, in the thread of the call. */
@FunctionalInterface
public interface ProgressListener {
  /** done: 0 to 1. Returns false to give up; the call then throws. What this throws, the call throws. */
  boolean onProgress(float done);
}
