"""The chips that Mesa's drm-shim can pretend to be, and what each driver's statistics mean."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Chip:
    name: str
    architecture: str  # of the machine that has such a driver
    shim: str
    driver: str  # the beginning of its *_icd.json
    environment: dict


def chips(architecture, shim, driver, variable, values, **more):
    return [Chip(name, architecture, shim, driver, {variable: value, **more}) for name, value in values.items()]


CHIPS = {chip.name: chip for chip in [
    *chips("amd64", "amdgpu", "radeon", "AMDGPU_GPU_ID",
           {name: name for name in ("polaris10", "vega10", "navi10", "navi21", "navi31", "strix1", "gfx1201")}),
    *chips("amd64", "freedreno", "freedreno", "FD_GPU_ID", {f"adreno-{number}": number for number in ("630", "660", "740", "750", "830")}),
    *chips("amd64", "nouveau", "nouveau", "NOUVEAU_CHIPSET",
           {"maxwell": "0x120", "pascal": "0x132", "volta": "0x140", "turing": "0x162", "ampere": "0x174", "ada": "0x194", "blackwell": "0x1b2"}),
    *chips("amd64", "asahi", "asahi", "WEFT_NO_CHOICE", {"apple-m1": ""}),
    *chips("arm64", "panfrost", "panfrost", "PAN_GPU_ID", {"mali-g310": "ac74", "mali-g610": "a867"}, PAN_I_WANT_A_BROKEN_VULKAN_DRIVER="1"),
    *chips("arm64", "powervr", "powervr_mesa", "PVR_SHIM_DEVICE_BVNC", {"powervr-bxs-4-64": "36.53.104.796"},
           PVR_I_WANT_A_BROKEN_VULKAN_DRIVER="1"),
    *chips("arm64", "v3d", "broadcom", "V3D_GPU_ID", {"v3d-4.2": "42", "v3d-7.1": "71"}),  # Raspberry Pi 4 and 5
]}

# Chips that only the shims of Mesa's newest version know (root.py).
NEWEST = ("ada", "blackwell", "v3d-4.2", "v3d-7.1")

# Chips of which a report without names has all pipelines: one of each driver.
DETAILED = ("navi21", "adreno-740", "turing", "apple-m1", "mali-g610", "powervr-bxs-4-64", "v3d-7.1")

# Chips that CI compiles for: six, which cover all drivers for amd64.
CI = ("polaris10", "navi21", "gfx1201", "adreno-740", "turing", "apple-m1")

COLUMNS = ("instructions", "registers", "waves", "spills", "scratch", "cycles")


@dataclasses.dataclass(frozen=True)
class Driver:
    """Names of a driver's statistics: for each column the names whose values are added up ("A|B": the larger one)."""
    instructions: tuple
    registers: tuple
    waves: tuple  # threads or groups of them that a core holds at once, in the driver's unit
    spills: tuple  # registers written to memory and read back
    scratch: tuple  # bytes, or words where the driver counts these
    cycles: tuple  # the driver's own estimate
    meaning: str  # of waves and cycles


# By the beginning of the name that a driver gives itself.
DRIVERS = {
    "radv": Driver(("Instructions",), ("VGPRs",), ("Subgroups per SIMD",), ("Spilled SGPRs", "Spilled VGPRs"), ("Scratch size",),
                   ("Inverse Throughput",), "waves a SIMD; inverse throughput"),
    "turnip": Driver(("Instruction Count",), ("Registers used",), ("Max Waves Per Core",), ("STP Count", "LDP Count"), (),
                     ("Estimated cycles stalled on SS", "Estimated cycles stalled on SY"), "waves a core; cycles stalled"),
    "NVK": Driver(("Instruction count",), ("Number of GPRs",), ("Max warps/SM",), ("Spills to memory", "Fills from memory"), ("SLM size",),
                  ("Static cycle count",), "warps an SM; static cycle count"),
    "Honeykrisp": Driver(("Instructions",), ("GPRs",), ("Threads",), ("Spills", "Fills"), ("Scratch",), ("ALU|FSCIB|IC",),
                         "threads a core; the busiest unit"),
    "panvk": Driver(("Instructions",), ("Registers used",), ("Threads",), ("Spills", "Fills"), (), ("Cycles",),
                    "threads a core, 1 or 2 times the least; cycles of the busiest unit"),
    "V3DV": Driver(("Instruction Count",), (), ("Thread Count",), ("TMU Spills", "TMU Fills"), ("Spill Size",), (), "threads a core; none is given"),
    "Imagination": Driver(("Inst group count",), ("Temp count",), (), ("Spill count",), ("Scratch size",), (), "none is given"),
}


def driver_of(name):
    for begin, driver in DRIVERS.items():
        if name.startswith(begin):
            return driver
    raise KeyError(f"no driver is known by the name {name!r}")


def columns_of(driver_name, statistics):
    """{column: number}; a column whose statistics the driver does not have is left out. Throws KeyError if none is known."""
    driver, columns = driver_of(driver_name), {}
    for column in COLUMNS:
        names = getattr(driver, column)
        found = [max(statistics[one] for one in name.split("|") if one in statistics) for name in names
                 if any(one in statistics for one in name.split("|"))]
        if found:
            columns[column] = sum(found)
    if "instructions" not in columns or "spills" not in columns:
        raise KeyError(f"{driver_name} says nothing of instructions or spills: {sorted(statistics)}")
    return columns
