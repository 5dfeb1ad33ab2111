package weft;

import java.nio.ByteBuffer;

/**
 * Small language models on any Vulkan GPU.
 *
 * <pre>{@code
 * try (Model model = Weft.load(null, new ModelOptions()); Session session = model.session(new SessionOptions())) {
 *   session.generate(List.of(Message.user("hello")), new GenerateOptions(), (id, text) -> {
 *     System.out.print(text);
 *     return true;
 *   });
 * }
 * }</pre>
 *
 * Everything is thin over the C API, and weft.h documents units and ranges. An error of libweft is thrown as {@link
 * WeftException}; numbers and texts that cannot be given to it are IllegalArgumentException; a use after close, or a
 * change of a session while it generates, is IllegalStateException.
 */
public final class Weft {
  private Weft() {}

  /**
   * Loads a model: a GGUF file, a Hugging Face folder, or a name that `weft pull` has downloaded. null: the model installed beside the library. It takes long
   * enough to want a thread of its own.
   */
  public static Model load(String path, ModelOptions options) {
    return new Model(path, -1, 0, 0, null, options);
  }

  /**
   * Loads a GGUF file that is `length` bytes from `offset` on of an open file; length 0: up to its end. On Android: the
   * descriptor of an uncompressed asset's AssetFileDescriptor, or of a document's ParcelFileDescriptor. It may be
   * closed afterwards.
   */
  public static Model load(int descriptor, long offset, long length, ModelOptions options) {
    if (descriptor < 0 || offset < 0 || length < 0)
      throw new IllegalArgumentException("descriptor " + descriptor + ", offset " + offset + ", length " + length);
    return new Model(null, descriptor, offset, length, null, options);
  }

  /**
   * Loads a GGUF file from memory: what remains of a direct buffer, such as a file that FileChannel.map has mapped. It is
   * not copied, and must not be changed before the model is closed.
   */
  public static Model loadMemory(ByteBuffer memory, ModelOptions options) {
    if (!memory.isDirect()) throw new IllegalArgumentException("the buffer is not direct");
    return new Model(null, -1, 0, 0, memory.slice(), options);
  }

  /**
   * Tells which device would be used, why not the others, and whether a model fits there with a session, as JSON; loads
   * nothing. Something that is missing is an answer: weft_probe of weft/probe.h lists the keys. path: a GGUF file or a Hugging
   * Face folder; "": the model installed beside the library; null: none. bytes: device memory that is needed besides.
   */
  public static String probe(String path, long bytes, ModelOptions o, SessionOptions session) {
    if (bytes < 0) throw new IllegalArgumentException("bytes is " + bytes);
    return Native.text(
        Native.probe(
            Native.bytes(path), bytes, Native.bytes(o.device), o.type.ordinal(), o.vocabType.ordinal(), o.memoryBudget,
            o.int8Inputs, o.tie ? 0 : 1, session.context, session.kv.ordinal(),
            session.kvValues.ordinal()));
  }

  /** The version of libweft. */
  public static String version() {
    return Native.text(Native.version());
  }

  /**
   * Names the folder of the files that Weft makes of its own accord, such as compiled shaders; it is made when it is
   * needed. Call it before the others. "": none, nothing is kept; null: the one that the environment names.
   */
  public static void setCacheFolder(String folder) {
    Native.setCacheFolder(Native.bytes(folder));
  }

  /** The machine's Vulkan devices as JSON; weft_devices of weft.h lists the keys. */
  public static String devices() {
    return Native.text(Native.devices());
  }

  /**
   * Measures which shapes are fastest on a device, for later loads, and returns a report as JSON; see weft_tune of
   * weft.h. device: as in {@link ModelOptions}; listener may be null.
   */
  public static String tune(String device, ProgressListener listener) {
    return Native.text(Native.tune(Native.bytes(device), listener));
  }
}
