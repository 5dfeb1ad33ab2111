package weft;

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
 * Everything is thin over the C API, and weft.h documents units and ranges. What libweft reports is thrown as {@link
 * WeftException}; numbers and texts that cannot be given to it are IllegalArgumentException; a use after close, or a
 * change of a session while it generates, is IllegalStateException.
 */
public final class Weft {
  private Weft() {}

  /**
   * Loads a model: a GGUF file or a Hugging Face folder. null: the model installed beside the library. It takes long
   * enough to want a thread of its own.
   */
  public static Model load(String path, ModelOptions options) {
    return new Model(path, options);
  }

  /** The version of libweft. */
  public static String version() {
    return Native.text(Native.version());
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
