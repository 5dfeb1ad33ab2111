package weft;

/** A LoRA adapter of a model, made by Model.adapter. It must be closed, or its model, which closes it. */
public final class Adapter implements ModelUser {
  private final Model model;
  private long handle; // guarded by this; 0: freed

  Adapter(Model model, String path, float scale) {
    this.model = model;
    byte[] name = Native.bytes(path);
    handle = model.create(this, m -> Native.adapterLoad(m, name, scale));
  }

  /** Frees the adapter as soon as no session uses it. Twice is fine. */
  @Override
  public void close() {
    synchronized (this) {
      if (handle == 0) return;
      Native.adapterFree(handle);
      handle = 0;
    }
    model.release(this);
  }

  synchronized void useFor(long session) {
    if (handle == 0) throw new IllegalStateException("the adapter is closed");
    Native.setAdapter(session, handle);
  }
}
