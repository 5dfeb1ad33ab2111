# For Homebrew on Linux, of the checkout that this formula lies in: brew install --HEAD --formula CHECKOUT/cmake/packaging/homebrew/weft.rb
class Weft < Formula
  desc "Small language models on any Vulkan GPU"
  license "Apache-2.0"
  head "file://#{File.expand_path("../../..", __dir__)}", using: :git, branch: "main"

  depends_on "boost" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "glslang" => :build
  depends_on "google-benchmark" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "spirv-cross" => :build
  depends_on "vulkan-headers" => :build
  depends_on "vulkan-volk" => :build
  depends_on "cairo"
  depends_on "curl"
  depends_on "libedit"
  depends_on "libsndfile"
  depends_on :linux
  depends_on "openssl@3"
  depends_on "pcre2"
  depends_on "utf8proc"
  depends_on "vulkan-loader"

  # Homebrew has no package of these two, which are headers here.
  resource "kissfft" do
    url "https://deb.debian.org/debian/pool/main/k/kissfft/kissfft_131.1.0.orig.tar.gz"
    sha256 "76c1aac87ddb7258f34b08a13f0eebf9e53afa299857568346aa5c82bcafaf1a"
  end

  resource "stb" do
    url "https://deb.debian.org/debian/pool/main/libs/libstb/libstb_0.0~git20220908.8b5f1f3+ds.orig.tar.xz"
    sha256 "6949c8ff9f86d982cff1b384f1301a731cbaf3b3fa4d1728c7b48a02386d31d8"
  end

  def install
    resource("kissfft").stage(buildpath/"headers/kissfft")
    resource("stb").stage(buildpath/"headers/stb")
    headers = buildpath/"headers"
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DWEFT_TESTS=OFF", "-DSTB_INCLUDE_DIR=#{headers}",
           "-DKISSFFT_INCLUDE_DIR=#{headers}", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "weft", shell_output("#{bin}/weft --help")
  end
end
