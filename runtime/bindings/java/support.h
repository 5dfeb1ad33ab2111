// Shared by the native methods of weft.Native. Java calls come from Java threads only, and libweft calls back on the
// calling thread, so no thread is ever attached.
//
// An exception that is pending in Java is never followed by another call of JNI: checked() leaves the C++ function, and
// a callback of libweft returns "stop" until libweft is left too.
#pragma once

#include <jni.h>

#include <weft/weft.h>
#include <new>
#include <string>
#include <vector>

#include "weft_Native.h"  // by javac: a native method with another signature does not compile

namespace weft::jni {

// Classes and methods, found once: the global references live as long as the library.
struct Java {
  jclass exception, info, stats, logprobs, ints;
  jmethodID new_exception, new_info, new_stats, new_logprobs, on_token, on_reasoning, on_prompt, on_progress, on_row,
      on_segment;
};
inline Java java;

struct Pending {};  // thrown in C++ when an exception is pending in Java

// Checks the JNI call that gave this value.
template <typename T>
T checked(JNIEnv* env, T value) {
  if (env->ExceptionCheck()) throw Pending{};
  return value;
}

inline void checked(JNIEnv* env) {
  if (env->ExceptionCheck()) throw Pending{};
}

// Runs the body of a native method. C++ exceptions do not get out; an exception that is pending in Java does.
template <typename Body>
auto guard(JNIEnv* env, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const Pending&) {
  } catch (const std::bad_alloc&) {
    if (const jclass type = env->FindClass("java/lang/OutOfMemoryError")) env->ThrowNew(type, "libweft_jni");
  } catch (...) {
    if (const jclass type = env->FindClass("java/lang/InternalError")) env->ThrowNew(type, "libweft_jni");
  }
  return decltype(body())();
}

template <typename T>
T* as(jlong handle) {
  return reinterpret_cast<T*>(handle);
}
inline jlong as_handle(const void* pointer) { return reinterpret_cast<jlong>(pointer); }

inline jbyteArray bytes(JNIEnv* env, const char* text, size_t length) {
  const auto size = static_cast<jsize>(length);
  const jbyteArray array = checked(env, env->NewByteArray(size));
  env->SetByteArrayRegion(array, 0, size, reinterpret_cast<const jbyte*>(text));
  checked(env);
  return array;
}
inline jbyteArray bytes(JNIEnv* env, const char* text) {
  return bytes(env, text, std::char_traits<char>::length(text));
}

// A text from Java, which may be null.
class Text {
 public:
  Text(JNIEnv* env, jbyteArray array) : there_(array != nullptr) {
    if (!there_) return;
    text_.resize(static_cast<size_t>(checked(env, env->GetArrayLength(array))));
    env->GetByteArrayRegion(array, 0, static_cast<jsize>(text_.size()), reinterpret_cast<jbyte*>(text_.data()));
    checked(env);
  }
  const char* get() const { return there_ ? text_.c_str() : nullptr; }
  size_t size() const { return text_.size(); }

 private:
  bool there_;
  std::string text_;
};

// Length of an array from Java. JNI itself would end the process if the array is null.
inline size_t length_of(JNIEnv* env, jarray array) {
  if (!array) {
    if (const jclass type = env->FindClass("java/lang/NullPointerException")) env->ThrowNew(type, "the array is null");
    throw Pending{};
  }
  return static_cast<size_t>(checked(env, env->GetArrayLength(array)));
}

inline std::vector<Text> texts(JNIEnv* env, jobjectArray array) {
  std::vector<Text> result;
  const auto count = static_cast<jsize>(length_of(env, array));
  for (jsize i = 0; i < count; ++i) {
    const auto element = static_cast<jbyteArray>(checked(env, env->GetObjectArrayElement(array, i)));
    result.emplace_back(env, element);
    env->DeleteLocalRef(element);
  }
  return result;
}

inline std::vector<uint32_t> ids_of(JNIEnv* env, jintArray array) {
  std::vector<uint32_t> result(length_of(env, array));
  env->GetIntArrayRegion(array, 0, static_cast<jsize>(result.size()), reinterpret_cast<jint*>(result.data()));
  checked(env);
  return result;
}

inline std::vector<float> floats_of(JNIEnv* env, jfloatArray array) {
  std::vector<float> result(length_of(env, array));
  env->GetFloatArrayRegion(array, 0, static_cast<jsize>(result.size()), result.data());
  checked(env);
  return result;
}

inline jintArray ints(JNIEnv* env, const std::vector<uint32_t>& values) {
  const auto size = static_cast<jsize>(values.size());
  const jintArray array = checked(env, env->NewIntArray(size));
  env->SetIntArrayRegion(array, 0, size, reinterpret_cast<const jint*>(values.data()));
  checked(env);
  return array;
}

inline jfloatArray floats(JNIEnv* env, const float* values, size_t count) {
  const auto size = static_cast<jsize>(count);
  const jfloatArray array = checked(env, env->NewFloatArray(size));
  env->SetFloatArrayRegion(array, 0, size, values);
  checked(env);
  return array;
}
inline jfloatArray floats(JNIEnv* env, const std::vector<float>& values) {
  return floats(env, values.data(), values.size());
}

[[noreturn]] inline void raise(JNIEnv* env, const weft_error& error) {
  const jbyteArray code = bytes(env, weft_status_name(error.code)), sentence = bytes(env, error.sentence),
                   place = bytes(env, error.place), hint = bytes(env, error.hint);
  const jobject exception =
      checked(env, env->NewObject(java.exception, java.new_exception, code, sentence, place, hint));
  env->Throw(static_cast<jthrowable>(exception));
  throw Pending{};
}

// Runs call(weft_error *). An exception of a Java callback takes precedence over the call's own error.
template <typename Call>
void check(JNIEnv* env, Call&& call) {
  weft_error error{};
  const weft_status status = call(&error);
  checked(env);
  if (status != WEFT_OK) raise(env, error);
}

// The text of call(char **, weft_error *).
template <typename Call>
jbyteArray take(JNIEnv* env, Call&& call) {
  char* text = nullptr;
  check(env, [&](weft_error* error) { return call(&text, error); });
  const std::string copy = text ? text : "";
  weft_string_free(text);
  return bytes(env, copy.data(), copy.size());
}

// The ids of call(ids, capacity, count, error).
template <typename Call>
jintArray take_ids(JNIEnv* env, size_t guess, Call&& call) {
  std::vector<uint32_t> result(guess);
  for (size_t count = 0;;) {
    check(env, [&](weft_error* error) { return call(result.data(), result.size(), &count, error); });
    const bool fitted = count <= result.size();
    result.resize(count);
    if (fitted) return ints(env, result);
  }
}

struct Callback {
  JNIEnv* env;
  jobject object;  // a ProgressListener, which may be null, a Session or a Transcriber
};

}  // namespace weft::jni

#define NATIVE(type, name) extern "C" JNIEXPORT type JNICALL Java_weft_Native_##name
