"""The Android library and the demo app of apps/android: packs them, checks the packages, and runs the app's tests (android/*Test.java) on
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
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "apps/android"), str(ROOT / "tests/apps"), str(ROOT / "tests/tools")]
import ggml_whisper
import pack
import pages

TESTS = ROOT / "tests/bindings/android"
SUITES = ("ChatTest", "LifeTest", "SpeechTest", "LooksTest")
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


def check_complaints(folder, lib):
    """Messages of pack.py about libraries that Android would not load."""
    machine = subprocess.run(["readelf", "-h", lib / "libweft.so"], text=True, stdout=subprocess.PIPE, check=True).stdout
    machine = re.search(r"Machine: +(.*)", machine)[1]
    page = "a segment is aligned to 4096 bytes instead of 16384"
    assert pack.complaints(lib / "libweft.so", machine) == [page, "has the soname ['libweft.so.0']"]
    assert pack.complaints(lib / "libweft_jni.so", machine) == [page]
    library = folder / "libweft.so"
    good = ["-fPIC", "-Wl,-soname,libweft.so", "-Wl,-z,max-page-size=16384"]
    for code, options, expected in (
            ("void weft_f(void) {}", good, []), ("void weft_f(void) {} int printf2(void) { return 1; }", good, ["exports printf2"]),
            ('int weft_i; __asm__(".text\\n.globl weft_f\\nweft_f: .quad weft_i");', [*good, "-Wl,-z,notext"], ["has text relocations"])):
        (folder / "library.c").write_text(code)
        pack.call("cc", "-shared", "-nostdlib", "-o", library, folder / "library.c", *options)
        assert pack.complaints(library, machine) == expected, (code, pack.complaints(library, machine))
    assert pack.complaints(library, "AArch64")[0] == "is not for AArch64"
    print("passed: what pack.py refuses")


def check_packages(made, lib):
    aar, apk = made.aar({"x86_64": lib}), made.apk({"x86_64": lib})
    with zipfile.ZipFile(aar) as package:
        names = ["AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt", "jni/x86_64/libweft.so", "jni/x86_64/libweft_jni.so"]
        assert package.namelist() == names, package.namelist()
        assert 'package="weft"' in package.read("AndroidManifest.xml").decode()
        assert package.read("jni/x86_64/libweft.so") == (lib / "libweft.so").read_bytes()
    with zipfile.ZipFile(made.output / "classes.jar") as jar:
        assert sorted(jar.namelist()) == sorted(str(file.relative_to(made.weft)) for file in made.weft.rglob("*.class"))
        assert {"weft/Weft.class", "weft/Native.class", "weft/Session.class"} <= set(jar.namelist())
    pom, sources, javadoc = made.beside()
    assert f"<version>{pack.VERSION}</version>\n  <packaging>aar</packaging>" in pom.read_text()
    for file, name in (sources, "weft/Session.java"), (javadoc, "weft/Session.html"):
        with zipfile.ZipFile(file) as package:
            assert name in package.namelist(), package.namelist()
    badging = pack.call("aapt2", "dump", "badging", apk)
    for line in ("package: name='weft.demo'", f"sdkVersion:'{pack.MIN_SDK}'", "targetSdkVersion:'36'", "uses-permission: name='android.permission.FOREGROUND_SERVICE_SPECIAL_USE'",
                 "uses-feature: name='android.hardware.vulkan.compute'", "launchable-activity: name='weft.demo.ChatActivity'", "native-code: 'x86_64'"):
        assert line in badging, badging
    tree = pack.call("aapt2", "dump", "xmltree", "--file", "AndroidManifest.xml", apk)
    assert re.search(r'E: service .*\n.*AnswerService".*\n.*exported.*false\n.*foregroundServiceType\(0x01010599\)=(0x)?40000000\n', tree), tree
    pack.call("zipalign", "-c", pack.PAGE, apk)
    pack.call("apksigner", "verify", "--min-sdk-version", pack.MIN_SDK, apk)
    with zipfile.ZipFile(apk) as package:
        dex = package.read("classes.dex")
        assert dex.startswith(b"dex\n039"), dex[:8]  # Android 9's
        assert all(word in dex for word in (b"Lweft/Native;", b"Lweft/demo/ChatActivity;", b"Lweft/demo/AnswerService;", b"onToken")) and b"Lweft/Encoder;" not in dex
        for name in pack.LIBRARIES:
            assert package.getinfo(f"lib/x86_64/{name}").compress_type == zipfile.ZIP_STORED
    for file in aar, apk:
        print(pack.contents(file))
    print("passed: the packages")


def check_rules(made, lib, cache):
    """The AAR's rules keep what JNI finds by name: docs/java.md's program runs after everything else was removed and renamed."""
    ask, small = made.output / "ask", made.output / "ask.jar"
    ask.mkdir()
    block = next(block for block in pages.blocks(ROOT / "docs/java.md") if block.file == "Ask.java")
    (ask / "Ask.java").write_text(block.text)
    pack.call("javac", "--release", "11", "-cp", made.weft, "-d", ask / "classes", ask / "Ask.java")
    made.shrink([ask / "classes", made.weft], small, "-keep", "class Ask { public static void main(java.lang.String[]); }")
    with zipfile.ZipFile(small) as jar:
        assert "weft/Message.class" not in jar.namelist(), "nothing was renamed"
    said = subprocess.run(["java", "-Xcheck:jni", f"-Djava.library.path={lib}", "-cp", str(small), "Ask", "set a timer for 10 minutes"], text=True,
                          timeout=300, env={**os.environ, "WEFT_CACHE_DIR": str(cache)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    assert re.fullmatch(r'Timer set for 10 minutes\.\n\{"action":"set_timer","minutes":10\}\n\d+ tokens, [\d.]+ tokens/s\n', said), said
    print("passed: the rules for R8 and ProGuard")


def compile_page(made):
    """The Java of docs/android.md."""
    block, = [block for block in pages.blocks(ROOT / "docs/android.md") if block.language == "java"]
    (made.output / block.file).write_text(block.text)
    pack.compile_java(made.output / "page", [made.weft, made.android], made.output / block.file)
    print("passed: the program of docs/android.md")


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
    jars = [made.weft, made.demo, made.android, *(jar for jar in made.jars if not jar.name.startswith("android-all"))]
    pack.call("javac", "-nowarn", "--release", "17", "-encoding", "UTF-8", "-d", classes, "-cp", ":".join(map(str, jars)),
              *sources.rglob("*.java"), *TESTS.glob("*.java"))
    return classes


def run_tests(made, classes, lib, screens, cache, only=()):
    speech = made.output / "ggml-speech.bin"
    ggml_whisper.convert(ROOT / "tests/model/golden_whisper/speech", speech)
    run_time = next(jar for jar in made.jars if jar.name.startswith("android-all-instrumented"))
    jars = [*(jar for jar in made.jars if not jar.name.startswith("android-all")), made.android]
    command = ["java", "-Xcheck:jni", "-Djava.security.manager=allow", "--add-opens=java.base/java.io=ALL-UNNAMED", f"-Djava.library.path={lib}",
               "-Drobolectric.offline=true", f"-Drobolectric.dependency.dir={run_time.parent}", f"-Dweft.model={ROOT / 'apps/pocket/pocket.gguf'}", f"-Dweft.screens={screens}", f"-Dweft.speech={speech}",
               "-cp", ":".join(map(str, [classes, made.demo, made.weft, *jars])), "org.junit.runner.JUnitCore",
               *(f"weft.demo.{name}" for name in (only or SUITES))]
    done = subprocess.run(list(map(str, command)), text=True, timeout=1200, env={**os.environ, "WEFT_CACHE_DIR": str(cache)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Robolectric's own native code makes -Xcheck:jni speak, and a stack follows each time. JUnit writes its dots before it.
    said = re.split(r"^([.E]*(?:WARNING|FATAL ERROR)\b.*(?:\n\t.*)*)\n", done.stdout, flags=re.M)
    print("".join(said[::2]))
    ours = [complaint for complaint in said[1::2] if re.search(r"\A.*\n\tat weft\.", complaint)]
    assert len(said) > 1, "-Xcheck:jni is not on"
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
        check_complaints(folder, build / "lib")
        check_packages(made, build / "lib")
        compile_page(made)
        check_rules(made, build / "lib", folder / "cache")
        run_tests(made, compile_tests(made, folder), build / "lib", screens, folder / "cache")


if __name__ == "__main__":
    main()
