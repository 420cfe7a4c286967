// SPDX-License-Identifier: GPL-2.0
/*
 * C inlines and macros as functions that Rust can call, sorted by header.
 *
 * With CONFIG_RUST_INLINE_HELPERS they are inlined into Rust as bitcode, otherwise they are
 * ordinary functions exported by kscale.ko.
 */

#include <crypto/aead.h>
#include <crypto/aes.h>
#include <crypto/skcipher.h>
#if IS_ENABLED(CONFIG_ENCRYPTED_KEYS)
#include <keys/encrypted-type.h>
#endif
#if IS_ENABLED(CONFIG_TRUSTED_KEYS)
#include <keys/trusted-type.h>
#endif
#include <keys/user-type.h>
#include <linux/bio.h>
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/crypto.h>
#include <linux/device-mapper.h>
#include <linux/fips.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/irqflags.h>
#include <linux/kmemleak.h>
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/percpu_counter.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/timer.h>

/* As the kernel's own rust/helpers/helpers.c: bypasses LLVM's inlining checks. */
#ifdef __BINDGEN__
#define __kscale_helper
#else
#define __kscale_helper __always_inline
#endif

/* crypto/aead.h */

__kscale_helper void kscale_helper_aead_request_set_ad(struct aead_request *req,
						       unsigned int assoclen)
{
	aead_request_set_ad(req, assoclen);
}

__kscale_helper void kscale_helper_aead_request_set_callback(struct aead_request *req, u32 flags,
							     crypto_completion_t compl, void *data)
{
	aead_request_set_callback(req, flags, compl, data);
}

__kscale_helper void kscale_helper_aead_request_set_crypt(struct aead_request *req,
							  struct scatterlist *src,
							  struct scatterlist *dst,
							  unsigned int cryptlen, u8 *iv)
{
	aead_request_set_crypt(req, src, dst, cryptlen, iv);
}

__kscale_helper void kscale_helper_aead_request_set_tfm(struct aead_request *req,
							struct crypto_aead *tfm)
{
	aead_request_set_tfm(req, tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_authsize(struct crypto_aead *tfm)
{
	return crypto_aead_authsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_blocksize(struct crypto_aead *tfm)
{
	return crypto_aead_blocksize(tfm);
}

__kscale_helper const char *kscale_helper_crypto_aead_driver_name(struct crypto_aead *tfm)
{
	return crypto_aead_driver_name(tfm);
}

__kscale_helper bool kscale_helper_crypto_aead_is_async(struct crypto_aead *tfm)
{
	return crypto_tfm_is_async(crypto_aead_tfm(tfm));
}

__kscale_helper unsigned int kscale_helper_crypto_aead_ivsize(struct crypto_aead *tfm)
{
	return crypto_aead_ivsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_reqsize(struct crypto_aead *tfm)
{
	return crypto_aead_reqsize(tfm);
}

__kscale_helper void kscale_helper_crypto_free_aead(struct crypto_aead *tfm)
{
	crypto_free_aead(tfm);
}

/* crypto/aes.h */

__kscale_helper void kscale_helper_aes_encrypt(const struct aes_enckey *key, u8 *out, const u8 *in)
{
	aes_encrypt(key, out, in);
}

/* crypto/skcipher.h */

__kscale_helper unsigned int kscale_helper_crypto_skcipher_blocksize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_blocksize(tfm);
}

__kscale_helper const char *kscale_helper_crypto_skcipher_driver_name(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_driver_name(tfm);
}

__kscale_helper void kscale_helper_crypto_free_skcipher(struct crypto_skcipher *tfm)
{
	crypto_free_skcipher(tfm);
}

__kscale_helper bool kscale_helper_crypto_skcipher_is_async(struct crypto_skcipher *tfm)
{
	return crypto_tfm_is_async(crypto_skcipher_tfm(tfm));
}

__kscale_helper unsigned int kscale_helper_crypto_skcipher_ivsize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_ivsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_skcipher_reqsize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_reqsize(tfm);
}

__kscale_helper void kscale_helper_skcipher_request_set_callback(struct skcipher_request *req,
								 u32 flags,
								 crypto_completion_t compl,
								 void *data)
{
	skcipher_request_set_callback(req, flags, compl, data);
}

__kscale_helper void kscale_helper_skcipher_request_set_crypt(struct skcipher_request *req,
							      struct scatterlist *src,
							      struct scatterlist *dst,
							      unsigned int cryptlen, void *iv)
{
	skcipher_request_set_crypt(req, src, dst, cryptlen, iv);
}

__kscale_helper void kscale_helper_skcipher_request_set_tfm(struct skcipher_request *req,
							    struct crypto_skcipher *tfm)
{
	skcipher_request_set_tfm(req, tfm);
}

__kscale_helper void kscale_helper_skcipher_request_zero(struct skcipher_request *req)
{
	skcipher_request_zero(req);
}

/* keys/encrypted-type.h */

#if IS_ENABLED(CONFIG_ENCRYPTED_KEYS)
/* As set_key_encrypted() in drivers/md/dm-crypt.c has it; key->sem must be held. */
__kscale_helper const void *kscale_helper_encrypted_key_data(const struct key *key,
							     unsigned int *len)
{
	const struct encrypted_key_payload *payload = key->payload.data[0];

	if (!payload)
		return NULL;
	*len = payload->decrypted_datalen;
	return payload->decrypted_data;
}
#endif

/* keys/trusted-type.h */

#if IS_ENABLED(CONFIG_TRUSTED_KEYS)
/* As set_key_trusted() in drivers/md/dm-crypt.c has it; key->sem must be held. */
__kscale_helper const void *kscale_helper_trusted_key_data(const struct key *key,
							   unsigned int *len)
{
	const struct trusted_key_payload *payload = key->payload.data[0];

	if (!payload)
		return NULL;
	*len = payload->key_len;
	return payload->key;
}
#endif

/* keys/user-type.h */

#ifdef CONFIG_KEYS
/* Of the type logon, too; key->sem must be held. */
__kscale_helper const void *kscale_helper_user_key_data(const struct key *key, unsigned int *len)
{
	const struct user_key_payload *payload = user_key_payload_locked(key);

	if (!payload)
		return NULL;
	*len = payload->datalen;
	return payload->data;
}
#endif

/* linux/bio.h */

__kscale_helper void kscale_helper_bio_set_dev(struct bio *bio, struct block_device *bdev)
{
	bio_set_dev(bio, bdev);
}

/* linux/blk-integrity.h */

/* As dm_crypt_integrity_io_alloc(): without CONFIG_BLK_DEV_INTEGRITY no device has a profile. */
__kscale_helper int kscale_helper_bio_attach_integrity(struct bio *bio, void *buf, unsigned int len)
{
	struct blk_integrity *bi = bdev_get_integrity(bio->bi_bdev);
	struct bio_integrity_payload *bip;

	if (!bi || bio_integrity(bio) || bio_integrity_bytes(bi, bio_sectors(bio)) != len)
		return -EINVAL;
	bip = bio_integrity_alloc(bio, GFP_NOIO, 1);
	if (IS_ERR(bip))
		return PTR_ERR(bip);
	bip->bip_iter.bi_sector = bio->bi_iter.bi_sector;
	if (bio_integrity_add_page(bio, virt_to_page(buf), len, offset_in_page(buf)) != len)
		return -ENOMEM;
	return 0;
}

/* Leaves what they point to alone if there is no profile. */
__kscale_helper void kscale_helper_bdev_integrity_profile(struct block_device *bdev,
							  u32 *metadata_size, u32 *interval,
							  bool *is_protection)
{
#ifdef CONFIG_BLK_DEV_INTEGRITY
	struct blk_integrity *bi = bdev_get_integrity(bdev);

	if (!bi)
		return;
	*metadata_size = bi->metadata_size;
	*interval = 1U << bi->interval_exp;
	*is_protection = bi->csum_type != BLK_INTEGRITY_CSUM_NONE;
#endif
}

/* linux/blkdev.h */

__kscale_helper bool kscale_helper_bdev_is_zoned(struct block_device *bdev)
{
	return bdev_is_zoned(bdev);
}

__kscale_helper unsigned int kscale_helper_bdev_logical_block_size(struct block_device *bdev)
{
	return bdev_logical_block_size(bdev);
}

__kscale_helper bool kscale_helper_bdev_rot(struct block_device *bdev)
{
	return bdev_rot(bdev);
}

/* linux/cpuhotplug.h */

__kscale_helper int kscale_helper_cpuhp_setup_state_multi(enum cpuhp_state state, const char *name,
							  int (*startup)(unsigned int cpu,
									 struct hlist_node *node),
							  int (*teardown)(unsigned int cpu,
									  struct hlist_node *node))
{
	return cpuhp_setup_state_multi(state, name, startup, teardown);
}

__kscale_helper int kscale_helper_cpuhp_state_add_instance(enum cpuhp_state state,
							   struct hlist_node *node)
{
	return cpuhp_state_add_instance(state, node);
}

__kscale_helper int kscale_helper_cpuhp_state_remove_instance(enum cpuhp_state state,
							      struct hlist_node *node)
{
	return cpuhp_state_remove_instance(state, node);
}

__kscale_helper void kscale_helper_cpuhp_remove_multi_state(enum cpuhp_state state)
{
	cpuhp_remove_multi_state(state);
}

/* linux/cpumask.h */

__kscale_helper bool kscale_helper_cpu_online(unsigned int cpu)
{
	return cpu_online(cpu);
}

__kscale_helper bool kscale_helper_cpu_possible(unsigned int cpu)
{
	return cpu_possible(cpu);
}

/* The two halves of for_each_possible_cpu(). */
__kscale_helper unsigned int kscale_helper_find_possible_cpu(unsigned int from)
{
	return find_next_bit(cpumask_bits(cpu_possible_mask), small_cpumask_bits, from);
}

__kscale_helper unsigned int kscale_helper_small_cpumask_bits(void)
{
	return small_cpumask_bits;
}

/* linux/crypto.h */

__kscale_helper void kscale_helper_crypto_init_wait(struct crypto_wait *wait)
{
	crypto_init_wait(wait);
}

__kscale_helper int kscale_helper_crypto_wait_req(int err, struct crypto_wait *wait)
{
	return crypto_wait_req(err, wait);
}

/* linux/device-mapper.h */

__kscale_helper void kscale_helper_dm_stack_bs_limits(struct queue_limits *limits, unsigned int bs)
{
	dm_stack_bs_limits(limits, bs);
}

/* linux/fips.h */

/* A variable or a constant. */
__kscale_helper bool kscale_helper_fips_enabled(void)
{
	return fips_enabled;
}

/* linux/gfp.h */

__kscale_helper unsigned long kscale_helper_alloc_pages_bulk(gfp_t gfp, unsigned long nr_pages,
							     struct page **page_array)
{
	return alloc_pages_bulk(gfp, nr_pages, page_array);
}

/* As cpu_to_node() in most of C: the node that memory for the CPU comes from. */
__kscale_helper struct page *kscale_helper_alloc_page_near(gfp_t gfp, unsigned int cpu)
{
	return alloc_pages_node(cpu_to_mem(cpu), gfp, 0);
}

/* linux/highmem.h */

__kscale_helper void kscale_helper_memcpy_page(struct page *dst_page, size_t dst_off,
					       struct page *src_page, size_t src_off, size_t len)
{
	memcpy_page(dst_page, dst_off, src_page, src_off, len);
}

__kscale_helper void kscale_helper_memcpy_from_page(char *to, struct page *page, size_t offset,
						    size_t len)
{
	memcpy_from_page(to, page, offset, len);
}

__kscale_helper void kscale_helper_memcpy_to_page(struct page *page, size_t offset,
						  const char *from, size_t len)
{
	memcpy_to_page(page, offset, from, len);
}

/* linux/kmemleak.h */

__kscale_helper void kscale_helper_kmemleak_not_leak(const void *ptr)
{
	kmemleak_not_leak(ptr);
}

/* linux/list_lru.h */

__kscale_helper unsigned long kscale_helper_list_lru_count(struct list_lru *lru)
{
	return list_lru_count(lru);
}

__kscale_helper unsigned long kscale_helper_list_lru_shrink_count(struct list_lru *lru,
								  struct shrink_control *sc)
{
	return list_lru_shrink_count(lru, sc);
}

/* As list_lru_walk(), which does not tell how many items are left to walk. */
__kscale_helper void kscale_helper_list_lru_walk(struct list_lru *lru, list_lru_walk_cb isolate,
						 void *cb_arg, unsigned long *nr_to_walk)
{
	int nid;

	for_each_node_state(nid, N_NORMAL_MEMORY) {
		list_lru_walk_node(lru, nid, isolate, cb_arg, nr_to_walk);
		if (!*nr_to_walk)
			break;
	}
}

/* linux/memcontrol.h */

__kscale_helper u64 kscale_helper_mem_cgroup_id(struct mem_cgroup *memcg)
{
	return mem_cgroup_id(memcg);
}

/* linux/mm.h */

__kscale_helper unsigned int kscale_helper_compound_order(struct page *page)
{
	return compound_order(page);
}

__kscale_helper void *kscale_helper_page_address(const struct page *page)
{
	return page_address(page);
}

__kscale_helper unsigned long kscale_helper_totalram_pages(void)
{
	return totalram_pages();
}

/* linux/module.h */

__kscale_helper bool kscale_helper_within_module(unsigned long addr, const struct module *mod)
{
	return within_module(addr, mod);
}

/* linux/nodemask.h */

/* A variable or a constant. */
__kscale_helper int kscale_helper_nr_nodes(void)
{
	return nr_node_ids;
}

/* linux/nodemask.h */

__kscale_helper bool kscale_helper_node_possible(int nid)
{
	return node_possible(nid);
}

/* linux/page-flags.h */

__kscale_helper bool kscale_helper_page_head(const struct page *page)
{
	return PageHead(page);
}

/* linux/percpu.h */

__kscale_helper void *kscale_helper_per_cpu_ptr(void __percpu *ptr, unsigned int cpu)
{
	return per_cpu_ptr(ptr, cpu);
}

__kscale_helper void *kscale_helper_raw_cpu_ptr(void __percpu *ptr)
{
	return raw_cpu_ptr(ptr);
}

__kscale_helper void kscale_helper_this_cpu_add_u32(void __percpu *ptr, u32 amount)
{
	this_cpu_add(*(u32 __percpu *)ptr, amount);
}

__kscale_helper void kscale_helper_this_cpu_add_u64(void __percpu *ptr, u64 amount)
{
	this_cpu_add(*(u64 __percpu *)ptr, amount);
}

__kscale_helper u32 kscale_helper_this_cpu_read_u32(void __percpu *ptr)
{
	return this_cpu_read(*(u32 __percpu *)ptr);
}

__kscale_helper u64 kscale_helper_this_cpu_read_u64(void __percpu *ptr)
{
	return this_cpu_read(*(u64 __percpu *)ptr);
}

/* linux/percpu_counter.h */

__kscale_helper int kscale_helper_percpu_counter_batch_once(void)
{
	return READ_ONCE(percpu_counter_batch);
}

__kscale_helper void kscale_helper_percpu_counter_add(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add(fbc, amount);
}

__kscale_helper void kscale_helper_percpu_counter_add_local(struct percpu_counter *fbc,
							    s64 amount)
{
	percpu_counter_add_local(fbc, amount);
}

__kscale_helper int kscale_helper_percpu_counter_compare(struct percpu_counter *fbc, s64 rhs)
{
	return percpu_counter_compare(fbc, rhs);
}

/* As percpu_counter_read(), whose load the compiler may tear or repeat. */
__kscale_helper s64 kscale_helper_percpu_counter_read_once(struct percpu_counter *fbc)
{
	return READ_ONCE(fbc->count);
}

__kscale_helper s64 kscale_helper_percpu_counter_read_positive(struct percpu_counter *fbc)
{
	return percpu_counter_read_positive(fbc);
}

/* linux/preempt.h */

__kscale_helper bool kscale_helper_in_atomic(void)
{
	return in_atomic();
}

__kscale_helper bool kscale_helper_in_task_irqs_on(void)
{
	return in_task() && !irqs_disabled();
}

__kscale_helper bool kscale_helper_irqs_on(void)
{
	return !in_hardirq() && !irqs_disabled();
}

__kscale_helper bool kscale_helper_in_hardirq(void)
{
	return in_hardirq();
}

__kscale_helper bool kscale_helper_in_interrupt_or_irqs_off(void)
{
	return in_interrupt() || irqs_disabled();
}

__kscale_helper bool kscale_helper_in_nmi(void)
{
	return in_nmi();
}

__kscale_helper void kscale_helper_preempt_disable(void)
{
	preempt_disable();
}

__kscale_helper void kscale_helper_preempt_enable(void)
{
	preempt_enable();
}

/* Never so without CONFIG_PREEMPT_COUNT, which spinlocks are not seen without. */
__kscale_helper bool kscale_helper_may_block(void)
{
	return IS_ENABLED(CONFIG_PREEMPT_COUNT) && !in_atomic() && !irqs_disabled() &&
	       !rcu_preempt_depth();
}

/* linux/rculist.h */

__kscale_helper void kscale_helper_list_add_rcu(struct list_head *new, struct list_head *head)
{
	list_add_rcu(new, head);
}

__kscale_helper void kscale_helper_list_add_tail_rcu(struct list_head *new, struct list_head *head)
{
	list_add_tail_rcu(new, head);
}

__kscale_helper void kscale_helper_list_del_rcu(struct list_head *entry)
{
	list_del_rcu(entry);
}

/* What list_for_each_entry_rcu() and list_for_each_entry_srcu() do to get on. */
__kscale_helper struct list_head *kscale_helper_list_next_rcu(struct list_head *list)
{
	return rcu_dereference_raw(list_next_rcu(list));
}

/* linux/refcount.h */

__kscale_helper bool kscale_helper_refcount_inc_not_zero(refcount_t *r)
{
	return refcount_inc_not_zero(r);
}

/* linux/rwsem.h */

__kscale_helper bool kscale_helper_rwsem_is_contended(struct rw_semaphore *sem)
{
	return rwsem_is_contended(sem);
}

/* linux/scatterlist.h */

__kscale_helper void kscale_helper_sg_set_buf(struct scatterlist *sg, const void *buf,
					      unsigned int buflen)
{
	sg_set_buf(sg, buf, buflen);
}

__kscale_helper void kscale_helper_sg_set_page(struct scatterlist *sg, struct page *page,
					       unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}

/* linux/sched.h */

__kscale_helper bool kscale_helper_current_is_memalloc(void)
{
	return current->flags & PF_MEMALLOC;
}

/* linux/sched/mm.h */

__kscale_helper unsigned int kscale_helper_memalloc_noio_save(void)
{
	return memalloc_noio_save();
}

__kscale_helper void kscale_helper_memalloc_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

__kscale_helper unsigned int kscale_helper_memalloc_noreclaim_save(void)
{
	return memalloc_noreclaim_save();
}

__kscale_helper void kscale_helper_memalloc_noreclaim_restore(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
}

/* linux/slab.h */

__kscale_helper struct kmem_cache *kscale_helper_kmem_cache_create(const char *name,
								   unsigned int size,
								   unsigned int align,
								   slab_flags_t flags)
{
	return kmem_cache_create(name, size, align, flags, NULL);
}

/* linux/srcu.h */

/* The name and the class are lockdep's. */
__kscale_helper int kscale_helper_init_srcu_struct_fast_with_key(struct srcu_struct *ssp,
								 const char *name,
								 struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	return __init_srcu_struct_fast(ssp, name, key);
#else
	return init_srcu_struct_fast(ssp);
#endif
}

__kscale_helper int
kscale_helper_init_srcu_struct_fast_updown_with_key(struct srcu_struct *ssp, const char *name,
						    struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	return __init_srcu_struct_fast_updown(ssp, name, key);
#else
	return init_srcu_struct_fast_updown(ssp);
#endif
}

__kscale_helper int kscale_helper_srcu_down_read(struct srcu_struct *ssp)
{
	return srcu_down_read(ssp);
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_down_read_fast(struct srcu_struct *ssp)
{
	return (__force struct srcu_ctr *)srcu_down_read_fast(ssp);
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_read_lock_fast(struct srcu_struct *ssp)
{
	return (__force struct srcu_ctr *)srcu_read_lock_fast(ssp);
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_read_lock_fast_updown(struct srcu_struct *ssp)
{
	return (__force struct srcu_ctr *)srcu_read_lock_fast_updown(ssp);
}

__kscale_helper void kscale_helper_srcu_read_unlock_fast(struct srcu_struct *ssp,
							 struct srcu_ctr *scp)
{
	srcu_read_unlock_fast(ssp, (__force struct srcu_ctr __percpu *)scp);
}

__kscale_helper void kscale_helper_srcu_read_unlock_fast_updown(struct srcu_struct *ssp,
								struct srcu_ctr *scp)
{
	srcu_read_unlock_fast_updown(ssp, (__force struct srcu_ctr __percpu *)scp);
}

__kscale_helper void kscale_helper_srcu_up_read(struct srcu_struct *ssp, int idx)
{
	srcu_up_read(ssp, idx);
}

__kscale_helper void kscale_helper_srcu_up_read_fast(struct srcu_struct *ssp, struct srcu_ctr *scp)
{
	srcu_up_read_fast(ssp, (__force struct srcu_ctr __percpu *)scp);
}

/* linux/string.h */

__kscale_helper void kscale_helper_memzero_explicit(void *s, size_t count)
{
	memzero_explicit(s, count);
}

/* linux/timer.h */

__kscale_helper void kscale_helper_mod_timer_msecs(struct timer_list *timer, unsigned int msecs)
{
	mod_timer(timer, jiffies + msecs_to_jiffies(msecs));
}

__kscale_helper void kscale_helper_timer_setup(struct timer_list *timer,
					       void (*function)(struct timer_list *timer))
{
	timer_setup(timer, function, 0);
}

/* linux/topology.h */

__kscale_helper int kscale_helper_numa_node(void)
{
	return numa_node_id();
}
