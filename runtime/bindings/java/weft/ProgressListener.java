package weft;

/** Called with the progress of a long call, in the thread of the call. */
@FunctionalInterface
public interface ProgressListener {
  /** done: 0 to 1. Returns false to give up; the call then throws. The call rethrows an exception of this method. */
  boolean onProgress(float done);
}
