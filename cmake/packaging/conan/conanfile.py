"""The library, of the checkout that this recipe lies in: conan create CHECKOUT/cmake/packaging/conan"""
import os
import re
import shutil

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps

ROOT = os.path.join("..", "..", "..")
SOURCES = {".": ["CMakeLists.txt", "LICENSE"], "cmake": ["*"], "runtime": ["*"], "shaders": ["*"], "apps/pocket": ["pocket.*"]}


class Weft(ConanFile):
    name = "weft"
    description = "Small language models on any Vulkan GPU"
    license = "Apache-2.0"
    settings = "os", "arch", "compiler", "build_type"
    package_type = "shared-library"
    requires = ("kissfft/131.1.0", "nlohmann_json/[>=3.10 <4]", "pcre2/[>=10.40 <11]", "stb/[>=cci.20220909]", "utf8proc/[>=2.8 <3]",
                "volk/[>=1.3 <2]", "vulkan-headers/[>=1.3 <2]")
    tool_requires = "glslang/[>=1.3 <2]", "pkgconf/[>=1.8 <3]", "spirv-cross/[>=1.3 <2]"

    def set_version(self):
        self.version = re.search(r"project\(Weft VERSION ([\d.]+)", load(self, os.path.join(self.recipe_folder, ROOT, "CMakeLists.txt")))[1]

    def export_sources(self):
        for folder, patterns in SOURCES.items():  # each by itself: a copy from the checkout would walk through its builds
            source, destination = os.path.join(self.recipe_folder, ROOT, folder), os.path.join(self.export_sources_folder, folder)
            for pattern in patterns:
                if folder == ".":
                    shutil.copy(os.path.join(source, pattern), destination)
                else:
                    copy(self, pattern, source, destination, excludes="*/__pycache__/*")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update(WEFT_APPS="OFF", WEFT_TESTS="OFF")
        stb = next((found for need, found in self.dependencies.items() if need.ref.name == "stb"), None)
        if stb and stb.package_folder:  # Weft includes <stb/stb_image.h>, as Debian has it
            folder = os.path.join(self.generators_folder, "include")
            copy(self, "stb_image*.h", os.path.join(stb.package_folder, "include"), os.path.join(folder, "stb"))
            toolchain.cache_variables["STB_INCLUDE_DIR"] = folder
        toolchain.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Weft")
        for name in ("weft", "weft_convert"):
            self.cpp_info.components[name].libs = [name]
            self.cpp_info.components[name].set_property("pkg_config_name", name.replace("_", "-"))
            self.cpp_info.components[name].requires = ["kissfft::kissfft", "nlohmann_json::nlohmann_json", "pcre2::pcre2", "stb::stb", "utf8proc::utf8proc",
                                                       "volk::volk", "vulkan-headers::vulkan-headers"] if name == "weft" else ["weft"]
        self.cpp_info.components["weft"].set_property("cmake_target_name", "Weft::weft")
        self.cpp_info.components["weft_convert"].set_property("cmake_target_name", "Weft::convert")
