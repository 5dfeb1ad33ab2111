// Keeps a Vulkan driver in memory until the program ends: the leak checker then reads what the driver still holds, and
// finds its name in support/lsan.supp. Mesa allocates its data on an AMD processor's caches once (util_cpu_detect.c),
// and the loader closes the driver with its last instance: nothing pointed to those 128 bytes any more, and their owner
// was unknown.
extern "C" __attribute__((visibility("default"))) int dlclose(void* handle);
extern "C" int dlclose(void* /*handle*/) { return 0; }
