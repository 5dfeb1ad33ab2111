package weft;

/** Receives what is said, in the thread of {@link Transcriber#feed} or {@link Transcriber#finish}. */
@FunctionalInterface
public interface SegmentListener {
  /**
   * A segment, in the order of the recording. Returns false to end the recording: the call then throws WEFT_CANCELLED. An
   * exception of this method ends it too, and the call rethrows it. The transcriber's language, cancel and close may be
   * called here.
   */
  boolean onSegment(Segment segment);
}
