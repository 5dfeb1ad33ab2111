// The native methods of weft.Native that need no session, and what is done once.
#include <weft/adapter.h>
#include <weft/descriptor.h>
#include <weft/probe.h>
#include <weft/reasoning.h>
#include <weft/recover.h>
#include <weft/rerank.h>
#include <weft/soft.h>

#include "support.h"

using namespace weft::jni;

static_assert(sizeof(jint) == sizeof(uint32_t) && sizeof(jfloat) == sizeof(float));
// The ordinals of NumberType, StopReason and Pooling, and the constants of GenerateOptions.
static_assert(WEFT_TYPE_FILE == 0 && WEFT_TYPE_F16 == 1 && WEFT_TYPE_Q8 == 2 && WEFT_TYPE_Q4 == 3);
static_assert(WEFT_STOP_LENGTH == 0 && WEFT_STOP_TOKEN == 1 && WEFT_STOP_CONTEXT == 2 && WEFT_STOP_CALLER == 3 &&
              WEFT_STOP_GRAMMAR == 4 && WEFT_STOP_STRING == 5);
static_assert(WEFT_POOL_MODEL == 0 && WEFT_POOL_MEAN == 1 && WEFT_POOL_CLS == 2);
static_assert(WEFT_GRAMMAR_NONE == 0 && WEFT_GRAMMAR_GBNF == 1 && WEFT_GRAMMAR_JSON_SCHEMA == 2 &&
              WEFT_GRAMMAR_REGEX == 3);
static_assert(WEFT_TIE_AUTO == 0 && WEFT_TIE_NEVER == 1);
static_assert(WEFT_POLICY_THROUGHPUT == 0 && WEFT_POLICY_POLITE == 1);

namespace {

int on_progress(void* user, float done) {
  const auto* callback = static_cast<Callback*>(user);
  if (callback->env->ExceptionCheck()) return 1;
  const jboolean go_on =
      callback->env->CallBooleanMethod(callback->object, java.on_progress, static_cast<jfloat>(done));
  return callback->env->ExceptionCheck() || !go_on;
}

jclass global_class(JNIEnv* env, const char* name) {
  return static_cast<jclass>(checked(env, env->NewGlobalRef(checked(env, env->FindClass(name)))));
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void*) {
  JNIEnv* env = nullptr;
  if (vm->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  return guard(env, [&]() -> jint {
    const auto method = [env](jclass type, const char* name, const char* signature) {
      return checked(env, env->GetMethodID(type, name, signature));
    };
    java.exception = global_class(env, "weft/WeftException");
    java.info = global_class(env, "weft/ModelInfo");
    java.stats = global_class(env, "weft/GenerationStats");
    java.logprobs = global_class(env, "weft/Logprobs");
    java.ints = global_class(env, "[I");
    java.new_exception = method(java.exception, "<init>", "([B[B[B[B)V");
    java.new_info = method(java.info, "<init>", "([B[B[B[BIIIIZZJJJJDJIJJJZ)V");
    java.new_stats = method(java.stats, "<init>", "(IIJJJDDDDJJJDDJJJJ)V");
    java.new_logprobs = method(java.logprobs, "<init>", "(F[I[F)V");
    // Their classes are not unloaded before this library is.
    java.on_token = method(checked(env, env->FindClass("weft/Session")), "onToken", "(I[B)Z");
    java.on_reasoning = method(checked(env, env->FindClass("weft/Session")), "onReasoning", "([B)Z");
    java.on_prompt = method(checked(env, env->FindClass("weft/Session")), "onPrompt", "(II)Z");
    java.on_progress = method(checked(env, env->FindClass("weft/ProgressListener")), "onProgress", "(F)Z");
    java.on_row = method(checked(env, env->FindClass("weft/LensListener")), "onRow", "(II[F[F)Z");
    java.on_segment = method(checked(env, env->FindClass("weft/Transcriber")), "onSegment", "(DD[BDD[B[D)Z");
    return JNI_VERSION_1_6;
  });
}

// ---- devices and models ----

NATIVE(jbyteArray, version)(JNIEnv* env, jclass) {
  return guard(env, [&] { return bytes(env, weft_version()); });
}

NATIVE(void, setCacheFolder)(JNIEnv* env, jclass, jbyteArray folder) {
  guard(env, [&] {
    const Text name(env, folder);
    check(env, [&](weft_error* error) { return weft_set_cache_folder(name.get(), error); });
  });
}

NATIVE(jbyteArray, devices)(JNIEnv* env, jclass) {
  return guard(env, [&] { return take(env, weft_devices); });
}

NATIVE(jbyteArray, tune)(JNIEnv* env, jclass, jbyteArray device, jobject listener) {
  return guard(env, [&] {
    const Text name(env, device);
    Callback callback{env, listener};
    return take(env, [&](char** json, weft_error* error) {
      return weft_tune(name.get(), listener ? on_progress : nullptr, &callback, json, error);
    });
  });
}

static weft_model_info info_of(jlong model) {
  weft_model_info info;
  weft_model_get_info(as<weft_model>(model), &info, sizeof info);
  return info;
}

static weft_model_options options_of(const Text& device, jint type, jint vocab_type, jlong memory_budget,
                                     jboolean int8_inputs, jint tie) {
  weft_model_options options = weft_model_options_default();
  options.device = device.get();
  options.type = static_cast<weft_type>(type);
  options.vocab_type = static_cast<weft_type>(vocab_type);
  options.memory_budget = static_cast<uint64_t>(memory_budget);
  options.int8_inputs = int8_inputs;
  options.tie = static_cast<weft_tie>(tie);
  return options;
}

NATIVE(jbyteArray, probe)
(JNIEnv* env, jclass, jbyteArray path, jlong needed, jbyteArray device, jint type, jint vocab_type, jlong memory_budget,
 jboolean int8_inputs, jint tie, jint context, jint kv, jint kv_values) {
  return guard(env, [&] {
    const Text file(env, path), name(env, device);
    const weft_model_options options = options_of(name, type, vocab_type, memory_budget, int8_inputs, tie);
    weft_session_options session = weft_session_options_default();
    session.context = static_cast<uint32_t>(context);
    session.kv = static_cast<weft_type>(kv);
    session.kv_values = static_cast<weft_type>(kv_values);
    weft_probe_report report = {};
    return take(env, [&](char** json, weft_error* error) {
      return weft_probe(file.get(), static_cast<uint64_t>(needed), &options, &session, &report, sizeof report, json,
                        error);
    });
  });
}

// memory null: the model is in a part of the descriptor; descriptor -1: it is at path.
NATIVE(jlong, modelLoad)
(JNIEnv* env, jclass, jbyteArray path, jint descriptor, jlong offset, jlong length, jobject memory, jbyteArray device,
 jint type, jint vocab_type, jlong memory_budget, jboolean int8_inputs, jint tie, jobject listener) {
  return guard(env, [&] {
    const Text file(env, path), name(env, device);
    Callback callback{env, listener};
    weft_model_options options = options_of(name, type, vocab_type, memory_budget, int8_inputs, tie);
    options.progress = listener ? on_progress : nullptr;
    options.user = &callback;
    weft_model* model = nullptr;
    weft_error error{};
    const auto load = [&] {
      if (memory) {
        const jlong size = env->GetDirectBufferCapacity(memory);
        return weft_model_load_memory(env->GetDirectBufferAddress(memory), static_cast<size_t>(size), &options, &model,
                                      &error);
      }
      if (descriptor < 0) return weft_model_load(file.get(), &options, &model, &error);
      return weft_model_load_fd(descriptor, static_cast<uint64_t>(offset), static_cast<uint64_t>(length), &options,
                                &model, &error);
    };
    const weft_status status = load();
    if (env->ExceptionCheck()) {  // the listener threw in the last report
      weft_model_free(model);
      throw Pending{};
    }
    if (status != WEFT_OK) raise(env, error);
    weft_model_set_recovery(model, 1, nullptr);
    return as_handle(model);
  });
}

NATIVE(void, modelFree)(JNIEnv*, jclass, jlong model) { weft_model_free(as<weft_model>(model)); }

NATIVE(void, modelRecover)(JNIEnv* env, jclass, jlong model) {
  guard(env, [&] { check(env, [&](weft_error* error) { return weft_model_recover(as<weft_model>(model), error); }); });
}

NATIVE(jobject, modelInfo)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    const weft_model_info info = info_of(model);
    const jbyteArray family = bytes(env, info.family), type = bytes(env, info.type), device = bytes(env, info.device),
                     driver = bytes(env, info.driver);
    const auto integer = [](uint32_t value) { return static_cast<jint>(value); };
    const auto number = [](uint64_t value) { return static_cast<jlong>(value); };
    const auto flag = [](int value) { return static_cast<jboolean>(value != 0); };
    return checked(
        env, env->NewObject(java.info, java.new_info, family, type, device, driver, integer(info.vocab_size),
                            integer(info.layers), integer(info.width), integer(info.max_context), flag(info.tied),
                            flag(info.has_chat_template), number(info.parameters), number(info.vocab_bytes),
                            number(info.layer_bytes), number(info.bytes_per_token), info.load_seconds,
                            number(info.tokenizer_fingerprint), integer(info.mask_token), number(info.streamed_bytes),
                            number(info.device_bytes), number(info.most_device_bytes), flag(info.reads_prompt_apart)));
  });
}

NATIVE(jbyteArray, modelDescribe)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    return take(
        env, [&](char** json, weft_error* error) { return weft_model_describe(as<weft_model>(model), json, error); });
  });
}

NATIVE(jdouble, modelMeasureBandwidth)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    double result = 0;
    check(env, [&](weft_error* error) { return weft_model_measure_bandwidth(as<weft_model>(model), &result, error); });
    return result;
  });
}

// ---- text ----

NATIVE(jintArray, tokenize)
(JNIEnv* env, jclass, jlong model, jbyteArray text, jboolean parse_special, jboolean add_bos) {
  return guard(env, [&] {
    const Text bytes_of_text(env, text);
    return take_ids(env, bytes_of_text.size() + 16, [&](auto... out) {
      return weft_tokenize(as<weft_model>(model), bytes_of_text.get(), bytes_of_text.size(), parse_special, add_bos,
                           out...);
    });
  });
}

NATIVE(jbyteArray, detokenize)(JNIEnv* env, jclass, jlong model, jintArray array) {
  return guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    char* text = nullptr;
    size_t length = 0;  // the text may have NUL characters
    check(env, [&](weft_error* error) {
      return weft_detokenize(as<weft_model>(model), ids.data(), ids.size(), &text, &length, error);
    });
    const std::string copy(text, length);
    weft_string_free(text);
    return bytes(env, copy.data(), copy.size());
  });
}

NATIVE(jintArray, applyChatTemplate)
(JNIEnv* env, jclass, jlong model, jobjectArray roles, jobjectArray contents, jint think) {
  return guard(env, [&] {
    const std::vector<Text> role_texts = texts(env, roles), content_texts = texts(env, contents);
    std::vector<weft_message> messages;
    size_t guess = 256;
    for (size_t i = 0; i < role_texts.size(); ++i) {
      messages.push_back({role_texts[i].get(), content_texts[i].get()});
      guess += content_texts[i].size() + 16;
    }
    return take_ids(env, guess, [&](auto... out) {
      auto* const own = as<weft_model>(model);
      if (think < 0) return weft_apply_chat_template(own, messages.data(), messages.size(), out...);
      return weft_apply_chat_template_thinking(own, messages.data(), messages.size(), think, out...);
    });
  });
}

NATIVE(jfloatArray, rows)(JNIEnv* env, jclass, jlong model, jintArray array, jint width) {
  return guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    std::vector<float> rows(ids.size() * static_cast<size_t>(width));
    check(env, [&](weft_error* error) {
      return weft_model_rows(as<weft_model>(model), ids.data(), ids.size(), rows.data(), error);
    });
    return floats(env, rows);
  });
}

NATIVE(jintArray, keep)(JNIEnv* env, jclass, jlong model, jbyteArray list) {
  return guard(env, [&] {
    const Text terms(env, list);
    return take_ids(env, info_of(model).vocab_size,
                    [&](auto... out) { return weft_vocab_keep(as<weft_model>(model), terms.get(), out...); });
  });
}

NATIVE(void, saveKeepList)(JNIEnv* env, jclass, jlong model, jintArray array, jbyteArray path) {
  guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    const Text file(env, path);
    check(env, [&](weft_error* error) {
      return weft_vocab_save(as<weft_model>(model), ids.data(), ids.size(), file.get(), error);
    });
  });
}

// ---- adapters ----

NATIVE(jlong, adapterLoad)(JNIEnv* env, jclass, jlong model, jbyteArray path, jfloat scale) {
  return guard(env, [&] {
    const Text text(env, path);
    weft_adapter* adapter = nullptr;
    check(env, [&](weft_error* error) {
      return weft_adapter_load(as<weft_model>(model), text.get(), scale, &adapter, error);
    });
    return as_handle(adapter);
  });
}

NATIVE(void, adapterFree)(JNIEnv*, jclass, jlong adapter) { weft_adapter_free(as<weft_adapter>(adapter)); }

// ---- encoders ----

NATIVE(jint, embeddingSize)(JNIEnv*, jclass, jlong model) {
  return static_cast<jint>(weft_model_embedding_size(as<weft_model>(model)));
}

NATIVE(jbyteArray, textPrompt)(JNIEnv* env, jclass, jlong model, jbyteArray array) {
  return guard(env, [&] {
    const Text name(env, array);
    char* text = nullptr;
    check(env, [&](weft_error* error) { return weft_model_prompt(as<weft_model>(model), name.get(), &text, error); });
    const std::string copy(text);
    weft_string_free(text);
    return bytes(env, copy.data(), copy.size());
  });
}

NATIVE(jlong, rerankerCreate)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    weft_reranker* reranker = nullptr;
    check(env, [&](weft_error* error) { return weft_reranker_create(as<weft_model>(model), &reranker, error); });
    return as_handle(reranker);
  });
}

NATIVE(void, rerankerFree)(JNIEnv*, jclass, jlong reranker) { weft_reranker_free(as<weft_reranker>(reranker)); }

NATIVE(jfloat, rerankerScore)
(JNIEnv* env, jclass, jlong reranker, jbyteArray instruction, jbyteArray query, jbyteArray document) {
  return guard(env, [&] {
    const Text asked(env, instruction), of(env, query), text(env, document);
    jfloat score = 0;
    check(env, [&](weft_error* error) {
      return weft_reranker_score(as<weft_reranker>(reranker), asked.get(), of.get(), text.get(), &score, nullptr,
                                 error);
    });
    return score;
  });
}

NATIVE(jlong, encoderCreate)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    weft_encoder* encoder = nullptr;
    check(env, [&](weft_error* error) { return weft_encoder_create(as<weft_model>(model), &encoder, error); });
    return as_handle(encoder);
  });
}

NATIVE(void, encoderFree)(JNIEnv*, jclass, jlong encoder) { weft_encoder_free(as<weft_encoder>(encoder)); }

NATIVE(void, encoderRun)(JNIEnv* env, jclass, jlong encoder, jintArray array) {
  guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    check(env, [&](weft_error* error) {
      return weft_encoder_run(as<weft_encoder>(encoder), ids.data(), ids.size(), error);
    });
  });
}

NATIVE(jfloatArray, encoderEmbedding)(JNIEnv* env, jclass, jlong encoder, jint pooling, jint width) {
  return guard(env, [&] {
    std::vector<float> result(static_cast<size_t>(width));
    check(env, [&](weft_error* error) {
      return weft_encoder_embedding(as<weft_encoder>(encoder), static_cast<weft_pooling>(pooling), result.data(),
                                    result.size(), error);
    });
    return floats(env, result);
  });
}

NATIVE(jfloatArray, encoderMaskedLogits)(JNIEnv* env, jclass, jlong encoder, jint place, jint vocab_size) {
  return guard(env, [&] {
    std::vector<float> result(static_cast<size_t>(vocab_size));
    check(env, [&](weft_error* error) {
      return weft_encoder_masked_logits(as<weft_encoder>(encoder), static_cast<size_t>(place), result.data(),
                                        result.size(), error);
    });
    return floats(env, result);
  });
}
