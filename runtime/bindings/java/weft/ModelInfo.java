package weft;

/** Facts about a model; weft_model_info of weft.h documents them. */
public final class ModelInfo {
  private final String family;
  private final String type;
  private final String device;
  private final String driver;
  private final int vocabSize;
  private final int layers;
  private final int width;
  private final int maxContext;
  private final boolean tied;
  private final boolean hasChatTemplate;
  private final long parameters;
  private final long vocabBytes;
  private final long layerBytes;
  private final long bytesPerToken;
  private final double loadSeconds;
  private final long tokenizerFingerprint;
  private final int maskToken;
  private final long streamedBytes;
  private final long deviceBytes;
  private final long mostDeviceBytes;
  private final boolean readsPromptApart;

  ModelInfo(
      byte[] family, byte[] type, byte[] device, byte[] driver, int vocabSize, int layers, int width,
      int maxContext, boolean tied, boolean hasChatTemplate, long parameters, long vocabBytes, long layerBytes,
      long bytesPerToken, double loadSeconds, long tokenizerFingerprint, int maskToken, long streamedBytes,
      long deviceBytes, long mostDeviceBytes, boolean readsPromptApart) {
    this.family = Native.text(family);
    this.type = Native.text(type);
    this.device = Native.text(device);
    this.driver = Native.text(driver);
    this.vocabSize = vocabSize;
    this.layers = layers;
    this.width = width;
    this.maxContext = maxContext;
    this.tied = tied;
    this.hasChatTemplate = hasChatTemplate;
    this.parameters = parameters;
    this.vocabBytes = vocabBytes;
    this.layerBytes = layerBytes;
    this.bytesPerToken = bytesPerToken;
    this.loadSeconds = loadSeconds;
    this.tokenizerFingerprint = tokenizerFingerprint;
    this.maskToken = maskToken;
    this.streamedBytes = streamedBytes;
    this.deviceBytes = deviceBytes;
    this.mostDeviceBytes = mostDeviceBytes;
    this.readsPromptApart = readsPromptApart;
  }

  public String family() {
    return family;
  }

  /** Type of the matrices on the device. */
  public String type() {
    return type;
  }

  public String device() {
    return device;
  }

  public String driver() {
    return driver;
  }

  public int vocabSize() {
    return vocabSize;
  }

  public int layers() {
    return layers;
  }

  /** Elements of a hidden state. */
  public int width() {
    return width;
  }

  /** Tokens that the model was made for. */
  public int maxContext() {
    return maxContext;
  }

  /** True if embedding and output read one table. */
  public boolean tied() {
    return tied;
  }

  public boolean hasChatTemplate() {
    return hasChatTemplate;
  }

  public long parameters() {
    return parameters;
  }

  /** Device memory of the vocabulary table. */
  public long vocabBytes() {
    return vocabBytes;
  }

  /** Device memory of all other weights. */
  public long layerBytes() {
    return layerBytes;
  }

  /** Weights that are read to decode a token. */
  public long bytesPerToken() {
    return bytesPerToken;
  }

  public double loadSeconds() {
    return loadSeconds;
  }

  public long tokenizerFingerprint() {
    return tokenizerFingerprint;
  }

  /** The id of the token to be predicted; -1: the model has none. */
  public int maskToken() {
    return maskToken;
  }

  /** Host memory of streamed layers. */
  public long streamedBytes() {
    return streamedBytes;
  }

  /** Device memory that the model and its sessions use now. */
  public long deviceBytes() {
    return deviceBytes;
  }

  /** The most they used at any time. */
  public long mostDeviceBytes() {
    return mostDeviceBytes;
  }

  /** True for an encoder-decoder. */
  public boolean readsPromptApart() {
    return readsPromptApart;
  }
}
