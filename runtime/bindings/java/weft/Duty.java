package weft;

/**
 * One limit of the device's time for several sessions and transcribers, whatever models they use. It must be closed; its
 * users then keep to its last share. It may be used from any thread. weft_duty of weft/duty.h says more.
 */
public final class Duty implements AutoCloseable {
  private long handle = Native.dutyCreate(); // guarded by this; 0: freed

  /** share: as of {@link #setShare}. */
  public Duty(float share) {
    try {
      setShare(share);
    } catch (RuntimeException wrong) {
      close();
      throw wrong;
    }
  }

  /** The part of the time that the device may be busy, 0 to 1. 1: no limit. 0: all users pause until it is set again. */
  public synchronized void setShare(float share) {
    Native.dutySetShare(open(), share);
  }

  /** How many seconds the device was busy with those that use it, while its share was below 1. */
  public synchronized double busySeconds() {
    return Native.dutyBusySeconds(open());
  }

  /** Twice is fine. */
  @Override
  public synchronized void close() {
    if (handle != 0) Native.dutyFree(handle);
    handle = 0;
  }

  /** user: a session, or a transcriber if `listens`. */
  synchronized void useFor(long user, boolean listens) {
    Native.useDuty(user, listens, open());
  }

  private long open() { // with this held
    if (handle == 0) throw new IllegalStateException("the duty is closed");
    return handle;
  }
}
