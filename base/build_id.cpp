// Walks the loaded objects for the one that contains this function and reads its build-id note.
#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace tilewright {
namespace {

struct Search {
  uintptr_t address;
  std::string id;
};

std::string hex(const unsigned char* bytes, size_t size) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text.push_back(digits[bytes[i] >> 4]);
    text.push_back(digits[bytes[i] & 15]);
  }
  return text;
}

std::string id_in_notes(const unsigned char* note, size_t size) {
  auto padded = [](uint32_t length) { return (static_cast<size_t>(length) + 3) & ~size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    size_t whole = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
    if (whole > size) break;
    const unsigned char* name = note + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return hex(name + padded(header.n_namesz), header.n_descsz);
    note += whole;
    size -= whole;
  }
  return {};
}

int visit_object(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && search->address >= begin && search->address < begin + segment.p_memsz)
      ours = true;
  }
  if (!ours) return 0;
  for (int i = 0; i < info->dlpi_phnum && search->id.empty(); ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    search->id = id_in_notes(reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr),
                             segment.p_memsz);
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string* id = [] {
    Search search{reinterpret_cast<uintptr_t>(&visit_object), {}};
    dl_iterate_phdr(visit_object, &search);
    return new std::string(std::move(search.id));  // never destroyed: usable during exit
  }();
  return *id;
}

const char* library_version() { return TILEWRIGHT_VERSION; }

}  // namespace tilewright
