#include "index/batch.h"

#include "index/keys.h"

namespace varve::index {

using Kind = BatchStep::Kind;

Batch::Batch() : changes_(std::make_unique<Changes>()) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

void Batch::frees_space() { changes_->frees = true; }

void Batch::put_inode(const Inode& inode) {
  changes_->steps.push_back({Kind::put, Family::inode, 0, number_key(inode.number), inode_value(inode)});
}

void Batch::erase_inode(InodeNumber inode) {
  changes_->steps.push_back({Kind::erase_inode, Family::inode, inode, number_key(inode), {}});
}

void Batch::put_dentry(InodeNumber parent, const Dentry& entry) {
  changes_->steps.push_back({Kind::put, Family::dentry, 0, name_key(parent, entry.name), name_value(entry)});
  changes_->steps.push_back({Kind::put, Family::dentry, 0, cookie_key(parent, entry.cookie), cookie_value(entry)});
}

void Batch::erase_dentry(InodeNumber parent, const Dentry& entry) {
  changes_->steps.push_back({Kind::erase, Family::dentry, 0, name_key(parent, entry.name), {}});
  changes_->steps.push_back({Kind::erase, Family::dentry, 0, cookie_key(parent, entry.cookie), {}});
}

void Batch::put_xattr(InodeNumber inode, std::string_view name, std::string_view value) {
  changes_->steps.push_back({Kind::put, Family::xattr, inode, xattr_key(inode, name), std::string(value)});
}

void Batch::erase_xattr(InodeNumber inode, std::string_view name) {
  changes_->steps.push_back({Kind::erase, Family::xattr, inode, xattr_key(inode, name), {}});
}

void Batch::publish(ObjectId object, std::string_view layout) {
  changes_->steps.push_back({Kind::publish, Family::object, object, {}, std::string(layout)});
}

void Batch::reference(ObjectId object) { changes_->steps.push_back({Kind::reference, Family::object, object, {}, {}}); }

void Batch::release(ObjectId object) { changes_->steps.push_back({Kind::release, Family::object, object, {}, {}}); }

void Batch::put_note(std::string_view key, std::string_view value) {
  changes_->steps.push_back({Kind::put, Family::note, 0, std::string(key), std::string(value)});
}

void Batch::erase_note(std::string_view key) {
  changes_->steps.push_back({Kind::erase, Family::note, 0, std::string(key), {}});
}

bool Batch::empty() const { return changes_->steps.empty(); }

}  // namespace varve::index
