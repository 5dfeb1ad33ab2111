// Repositories of models at Hugging Face, and servers that speak its protocol.
#pragma once

#include <string>
#include <vector>

#include "download.h"

namespace weft::cli {

// A model as the command line names it.
struct Reference {
  std::string source;      // "hf.co/OWNER/REPO", "hf.co/OWNER/REPO:TYPE" or a URL
  std::string repository;  // "OWNER/REPO"; "": the source is the URL of a file
  std::string type;        // of GGUF files; "": the best that there is
};

// A name of the catalogue, hf.co/OWNER/REPO[:TYPE], OWNER/REPO[:TYPE], or the URL of a GGUF file. Throws UsageError.
Reference parse_reference(const std::string& name);

// Files that make a model, and the name that it gets here.
struct RemoteModel {
  std::string name;
  std::vector<RemoteFile> files;  // one of a GGUF file; else parts of one, or a folder in Hugging Face's format
  Credentials credentials;
};

// Asks the hub ($HF_ENDPOINT, else https://huggingface.co; $HF_TOKEN). Throws api::Failure.
RemoteModel find_remote(const Reference& reference);

}  // namespace weft::cli
