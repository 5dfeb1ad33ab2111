# nix build 'CHECKOUT?dir=cmake/packaging/nix'
{
  description = "Small language models on any Vulkan GPU";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.stdenv.mkDerivation {
          pname = "weft";
          version = "0.2.0";
          src = ../../..;
          nativeBuildInputs = with pkgs; [ cmake glslang ninja pkg-config spirv-cross ];
          buildInputs = with pkgs; [
            boost cairo cli11 curl gbenchmark kissfft libedit libsndfile nlohmann_json openssl pcre2 stb utf8proc vulkan-headers vulkan-loader vulkan-volk
          ];
          cmakeFlags = [ "-DWEFT_TESTS=OFF" ];
          # The loader is found when the program runs.
          postFixup = "patchelf --add-rpath ${pkgs.lib.makeLibraryPath [ pkgs.vulkan-loader ]} $out/lib/libweft.so.0";
          meta = {
            description = "Small language models on any Vulkan GPU";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "weft";
            platforms = systems;
          };
        };
      });
    };
}
