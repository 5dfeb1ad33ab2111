// The Vulkan loader's loader: volk is one source file that its package installs beside its header.
#define VK_NO_PROTOTYPES
#include <volk.c>
