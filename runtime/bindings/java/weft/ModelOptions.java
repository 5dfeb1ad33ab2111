package weft;

/** How a model is loaded; weft_model_options of weft.h says more. Each method sets an option and returns this. */
public final class ModelOptions {
  String device;
  NumberType type = NumberType.FILE;
  NumberType vocabType = NumberType.FILE;
  long memoryBudget;
  boolean int8Inputs;
  boolean tie = true;
  ProgressListener progress;

  /** A device's index or a part of its name; null: the best. */
  public ModelOptions device(String value) {
    device = value;
    return this;
  }

  /** Type of the matrices and the vocabulary table on the device. */
  public ModelOptions type(NumberType value) {
    type = value;
    return this;
  }

  /** Type of the vocabulary table; FILE: the same as type. */
  public ModelOptions vocabType(NumberType value) {
    vocabType = value;
    return this;
  }

  /** Bytes of device memory for the model and its sessions; 0: no limit. */
  public ModelOptions memoryBudget(long value) {
    if (value < 0) throw new IllegalArgumentException("memoryBudget is " + value);
    memoryBudget = value;
    return this;
  }

  /** Rounds the inputs of prompts' matrix products to 8 bits. */
  public ModelOptions int8Inputs(boolean value) {
    int8Inputs = value;
    return this;
  }

  /** Makes two vocabulary tables that differ by rounding only one; the default is true. */
  public ModelOptions tie(boolean value) {
    tie = value;
    return this;
  }

  /** Listener for the progress of loading; null: loading returns early, and continues in the background. */
  public ModelOptions progress(ProgressListener value) {
    progress = value;
    return this;
  }
}
