"""The Android library and the demo app of apps/android: packs them, checks the packages, and runs the app's tests (android/ChatTest.java) on
Robolectric with -Xcheck:jni. Not a test of CTest: Maven needs the network the first time.

android_test.py BUILD [SCREENS]. BUILD is a build folder with libweft.so, libweft_jni.so and the programs. SCREENS: where pictures of the
app go. $WEFT_MAVEN: Maven's repository. Exit code 77: Maven could not get what it needs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "apps/android"))
import pack

# Robolectric calls a few methods of Google's androidx.test, which is not at Maven Central. Nothing of it is needed but these declarations.
STAND_IN = {
    "internal.platform.app.ActivityInvoker": "interface ActivityInvoker {}",
    "internal.platform.content.PermissionGranter": "interface PermissionGranter {}",
    "internal.platform.os.ControlledLooper": "interface ControlledLooper {}",
    "internal.platform.ThreadChecker": "interface ThreadChecker {}",
    "internal.runner.intent.IntentMonitorImpl": "class IntentMonitorImpl implements androidx.test.runner.intent.IntentMonitor {"
                                               " public void signalIntent(android.content.Intent intent) {} }",
    "internal.runner.lifecycle.ActivityLifecycleMonitorImpl":
        "class ActivityLifecycleMonitorImpl implements androidx.test.runner.lifecycle.ActivityLifecycleMonitor {"
        " public void signalLifecycleChange(androidx.test.runner.lifecycle.Stage stage, android.app.Activity activity) {} }",
    "internal.runner.lifecycle.ApplicationLifecycleMonitorImpl":
        "class ApplicationLifecycleMonitorImpl implements androidx.test.runner.lifecycle.ApplicationLifecycleMonitor {"
        " public void signalLifecycleChange(android.app.Application a, androidx.test.runner.lifecycle.ApplicationStage stage) {} }",
    "platform.app.InstrumentationRegistry": "class InstrumentationRegistry {"
                                            " private static android.app.Instrumentation instance;"
                                            " public static void registerInstance(android.app.Instrumentation i, android.os.Bundle b) { instance = i; }"
                                            " public static android.app.Instrumentation getInstrumentation() { return instance; } }",
    "runner.intent.IntentMonitor": "interface IntentMonitor {}",
    "runner.intent.IntentMonitorRegistry": "class IntentMonitorRegistry { public static void registerInstance(IntentMonitor monitor) {} }",
    "runner.intent.IntentStubber": "interface IntentStubber {"
                                   " android.app.Instrumentation.ActivityResult getActivityResultForIntent(android.content.Intent intent); }",
    "runner.intent.IntentStubberRegistry": "class IntentStubberRegistry { public static boolean isLoaded() { return false; }"
                                           " public static IntentStubber getInstance() { return null; } }",
    "runner.lifecycle.ActivityLifecycleMonitor": "interface ActivityLifecycleMonitor {}",
    "runner.lifecycle.ActivityLifecycleMonitorRegistry":
        "class ActivityLifecycleMonitorRegistry { public static void registerInstance(ActivityLifecycleMonitor monitor) {} }",
    "runner.lifecycle.ApplicationLifecycleMonitor": "interface ApplicationLifecycleMonitor {}",
    "runner.lifecycle.ApplicationLifecycleMonitorRegistry":
        "class ApplicationLifecycleMonitorRegistry { public static void registerInstance(ApplicationLifecycleMonitor monitor) {} }",
    "runner.lifecycle.ApplicationStage": "enum ApplicationStage { PRE_ON_CREATE, CREATED }",
    "runner.lifecycle.Stage": "enum Stage { PRE_ON_CREATE, CREATED, STARTED, RESUMED, PAUSED, STOPPED, RESTARTED, DESTROYED }",
}


def compile_tests(made, output):
    sources = output / "stand_in"
    for name, body in STAND_IN.items():
        file = sources / f"androidx/test/{name.replace('.', '/')}.java"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"package androidx.test.{name.rpartition('.')[0]};\npublic {body}\n")
    classes = output / "tests"
    (classes / "com/android/tools").mkdir(parents=True)
    (classes / "com/android/tools/test_config.properties").write_text(
        f"android_merged_manifest={made.output / 'AndroidManifest.xml'}\nandroid_resource_apk={made.base}\nandroid_custom_package=weft.demo\n")
    # Android 8's classes first: what the app is compiled with. Robolectric's own declarations name classes of later ones.
    jars = [made.weft, made.demo, made.android, *made.jars]
    pack.call("javac", "-nowarn", "--release", "17", "-encoding", "UTF-8", "-d", classes, "-cp", ":".join(map(str, jars)),
              *sources.rglob("*.java"), ROOT / "tests/bindings/android/ChatTest.java")
    return classes


def run_tests(made, classes, lib, screens, cache):
    run_time = next(jar for jar in made.jars if jar.name.startswith("android-all-instrumented"))
    jars = [*(jar for jar in made.jars if not jar.name.startswith("android-all")), made.android]
    command = ["java", "-Xcheck:jni", "--add-opens=java.base/java.io=ALL-UNNAMED", f"-Djava.library.path={lib}", "-Drobolectric.offline=true", f"-Drobolectric.dependency.dir={run_time.parent}",
               f"-Dweft.model={ROOT / 'apps/pocket/pocket.gguf'}", f"-Dweft.screens={screens}",
               "-cp", ":".join(map(str, [classes, made.demo, made.weft, *jars])), "org.junit.runner.JUnitCore", "weft.demo.ChatTest"]
    done = subprocess.run(list(map(str, command)), text=True, timeout=600, env={**os.environ, "WEFT_CACHE_DIR": str(cache)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Robolectric's own native code makes -Xcheck:jni speak, and a stack follows each time.
    said = re.split(r"^((?:WARNING|FATAL ERROR)\b.*(?:\n\t.*)*)\n", done.stdout, flags=re.M)
    print("".join(said[::2]))
    ours = [complaint for complaint in said[1::2] if re.search(r"\A.*\n\tat weft\.", complaint)]
    assert not ours, ours[0]
    assert done.returncode == 0, done.returncode


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        screens = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else folder / "screens").resolve()
        screens.mkdir(parents=True, exist_ok=True)
        made = pack.Pack(folder, pack.maven_jars())
        made.classes()
        run_tests(made, compile_tests(made, folder), build / "lib", screens, folder / "cache")


if __name__ == "__main__":
    main()
