package weft;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * How one call generates; what is not set is the default. Each method sets an option and returns this. weft_request and
 * weft_generate_options of weft.h say more.
 */
public final class GenerateOptions {
  static final int NO_GRAMMAR = 0;
  static final int GBNF = 1;
  static final int JSON_SCHEMA = 2;
  static final int REGEX = 3;

  int maxTokens;
  boolean ignoreStopTokens;
  Sampling sampling;
  Map<Integer, Float> logitBias;
  List<String> stops = new ArrayList<>();
  int logprobs;
  String head = "full";
  boolean speculate;
  Model draft;
  PromptListener promptProgress;
  Boolean think;
  int thinkTokens;
  int grammarKind = NO_GRAMMAR;
  String grammar;

  /** 0: until something else ends the text. */
  public GenerateOptions maxTokens(int value) {
    if (value < 0) throw new IllegalArgumentException("maxTokens is " + value);
    maxTokens = value;
    return this;
  }

  /** Continues after the model's stop tokens. */
  public GenerateOptions ignoreStopTokens(boolean value) {
    ignoreStopTokens = value;
    return this;
  }

  /** How tokens are chosen. null: by the defaults; first after Session.restore, as the saved session chose them. */
  public GenerateOptions sampling(Sampling value) {
    sampling = value;
    return this;
  }

  /** Addends of logits by id. null: none; first after Session.restore, those of the saved session. */
  public GenerateOptions logitBias(Map<Integer, Float> value) {
    logitBias = value == null ? null : new TreeMap<>(value);
    return this;
  }

  /** Texts that end the generation. */
  public GenerateOptions stops(List<String> value) {
    stops = new ArrayList<>(value);
    return this;
  }

  /** How many of the likeliest tokens Session.logprobs has; 0: no log-probabilities. */
  public GenerateOptions logprobs(int value) {
    if (value < 0) throw new IllegalArgumentException("logprobs is " + value);
    logprobs = value;
    return this;
  }

  /** Which rows of the vocabulary are read: "full", "certified", "sure", "fast", "auto:sure", "keep:LIST"; docs/heads.md explains them. */
  public GenerateOptions head(String value) {
    head = value;
    return this;
  }

  /** Drafts tokens ahead from the context where that pays; the text is the same. See speculate.h. */
  public GenerateOptions speculate(boolean value) {
    speculate = value;
    return this;
  }

  /** A smaller model with the same tokenizer that guesses tokens ahead instead; null: none. See speculate.h. */
  public GenerateOptions draft(Model value) {
    draft = value;
    return this;
  }

  /** Listener for the progress of a long prompt; null: none. weft_prompt_callback of weft.h documents when it is called. */
  public GenerateOptions promptProgress(PromptListener value) {
    promptProgress = value;
    return this;
  }

  /**
   * Has the model reason before it answers messages, or not; null: as its template has it. Reasoning is told apart from
   * answers to messages; of other prompts only if this is not null. weft/reasoning.h says more.
   */
  public GenerateOptions think(Boolean value) {
    think = value;
    return this;
  }

  /** Most tokens of the reasoning of an answer, after which it is closed; 0: no limit. */
  public GenerateOptions thinkTokens(int value) {
    if (value < 0) throw new IllegalArgumentException("thinkTokens is " + value);
    thinkTokens = value;
    return this;
  }

  /** A grammar of the text in llama.cpp's notation. At most one of grammar, jsonSchema and regex: the last one counts. */
  public GenerateOptions grammar(String gbnf) {
    return grammar(GBNF, gbnf);
  }

  /** A JSON schema that the text must have. */
  public GenerateOptions jsonSchema(String schema) {
    return grammar(JSON_SCHEMA, schema);
  }

  /** A regular expression that the whole text must match. */
  public GenerateOptions regex(String expression) {
    return grammar(REGEX, expression);
  }

  private GenerateOptions grammar(int kind, String text) {
    grammarKind = text == null ? NO_GRAMMAR : kind;
    grammar = text;
    return this;
  }
}
